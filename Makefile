# Two commands: `make run` and `make test`. Needs Python 3.11 or newer with venv, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# Tests wait (for a platform's pace, a death, a clock) more than they work: more of them at once than cores. Each
# worker collects all tests and imports the house for its daemons, 10 s of the processor before the first test.
WORKERS ?= 6
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: run help install install-dev test check style types rules pythons bench lock wheels clean torture reference

run: install  ## start the daemon in the foreground; it prints a one-time link to the chat in the browser
	@$(BIN)/ohmo run

help:  ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)$$/make \1\t\2/p' Makefile | expand -t 16

install: $(VENV)/.installed  ## make .venv with everything ohmo can use

install-dev: $(VENV)/.installed-dev  ## the same, with what tests need

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "ohmo needs Python 3.11 or newer, this is %d.%d; try make PYTHON=python3.12" % sys.version_info[:2])'
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/.created
	@echo "installing ohmo into $(VENV) (once; it takes a minute or several)"
	@$(BIN)/pip install --quiet --require-hashes --only-binary :all: -r requirements.lock
	@$(BIN)/pip install --quiet --no-deps -e .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "installing what tests need into $(VENV) (once)"
	@$(BIN)/pip install --quiet --require-hashes --only-binary :all: -r requirements-dev.lock
	@touch $@

test: $(VENV)/.installed-dev  ## run every test; PYTEST_ARGS="-k name" for some
	@$(BIN)/python -m tests.run -n $(WORKERS) --dist loadgroup --reruns 1 $(PYTEST_ARGS)

pythons:  ## install and start ohmo on every other Python that is here
	@$(PYTHON) -m tests.pythons

check: style types rules  ## style, types and the house rules

style: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	@$(BIN)/basedpyright

rules: $(VENV)/.installed-dev
	@$(BIN)/pytest tests/architecture

bench: $(VENV)/.installed-dev  ## what ohmo costs beside the model (docs/evidence/benchmarks.md); TABLE=folder of the tokenizer
	@for one in overhead history start platforms kills cron page; do echo "$$one"; $(BIN)/python -m benchmarks.$$one || exit 1; done
	@echo tokens; $(BIN)/python -m benchmarks.tokens $(if $(TABLE),--table $(TABLE))

reference: $(VENV)/.installed  ## docs/reference anew, from the code
	@$(BIN)/python -m tests.reference

lock:  ## for maintainers, needs uv: new lock files without any registry host in them
	uv pip compile pyproject.toml --extra all --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
		--only-binary :all: --custom-compile-command "make lock" --upgrade --quiet -o requirements.lock
	uv pip compile pyproject.toml --extra all --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
		--only-binary :all: --custom-compile-command "make lock" --quiet -c requirements.lock -o requirements-dev.lock
	@$(MAKE) --no-print-directory wheels

SYSTEMS := x86_64-manylinux_2_28 aarch64-manylinux_2_28 x86_64-unknown-linux-musl aarch64-apple-darwin x86_64-apple-darwin
wheels:  ## for maintainers, needs uv: whether every Python and system that is promised has a wheel of all that is locked
	@for python in 3.11 3.12 3.13 3.14; do for system in $(SYSTEMS); do \
		uv pip compile requirements.lock --no-deps --only-binary :all: --quiet --python-version $$python --python-platform $$system >/dev/null \
			&& echo "Python $$python on $$system: all there" || exit 1; done; done

clean:  ## remove what make and the tests left
	rm -rf $(VENV) .ruff_cache .pytest_cache .hypothesis dist build

# Each campaign alone: make torture-kills ARGS="--seed 4711 --resume"
torture-kills: RUNS = faults.torture
torture-mutations: RUNS = faults.mutations --table docs/evidence/mutations.md
torture-limits: RUNS = faults.limits --table docs/evidence/limits.md
torture-configurations: RUNS = faults.configurations --table docs/evidence/broken-configurations.md
torture-storm: RUNS = faults.storm --burst
torture-soak: RUNS = faults.soak
torture-cron: RUNS = unit.cron.soak --table docs/evidence/cron-soak.md
torture-zones: RUNS = unit.cron.zone_walk
torture-shell: RUNS = differential
CAMPAIGNS := $(addprefix torture-,kills mutations limits configurations storm soak cron zones shell)

.PHONY: $(CAMPAIGNS)
$(CAMPAIGNS): $(VENV)/.installed-dev
	@echo "$@"; $(BIN)/python -m tests.$(RUNS) $(ARGS)

torture:  ## the long campaigns, hours of them, each to its end, then which failed; one of them: make torture-soak ARGS="--minutes 30" (docs/evidence/faults.md)
	@test -z "$(ARGS)" || { echo 'ARGS go to one campaign: make torture-kills ARGS="$(ARGS)"; there are $(CAMPAIGNS)' >&2; exit 1; }
	@failed=; for one in $(CAMPAIGNS); do $(MAKE) --no-print-directory $$one || failed="$$failed $$one"; done; \
		test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }
