"""What the cage of a command is opened to: what its words name and somebody allowed by name."""

from __future__ import annotations

import os
import random
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from permission_house import House, Mode

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.tool import Allow, Ask, Deny, Footprint, Opened, Verdict
from ohmo.permissions.gate import LayeredGate
from ohmo.shell.hosts import hosts_of, networked


async def none(*_: str) -> Any:
    return None


async def no_grants() -> tuple[()]:
    return ()


@pytest.fixture
def srv(house: House) -> Path:
    """A folder beside the workspace, and one with a secret in it."""
    for name in ("srv/data.txt", "srv/sub/more.txt", "mixed/data.txt", "mixed/app/.npmrc"):
        (house.home / name).parent.mkdir(parents=True, exist_ok=True)
        (house.home / name).write_text("x\n")
    return house.home / "srv"


def opened(
    house: House,
    command: str,
    *,
    allow: tuple[str, ...] = (),
    person: bool = False,
    mode: Mode = "default",
    rules: tuple[str, ...] = (),
    **more: Any,
) -> Opened:
    """As the tool would ask, with the network that the words want."""
    context = replace(house.context(mode), rules=rules)
    names = hosts_of(house.shell.parse(command, house.work))
    asked = Footprint(command=command, names=names)
    return house.policy(allow=allow, **more).opened(asked, context, (), person=person)


def test_a_person_s_word_opens_what_the_command_names(house: House, srv: Path) -> None:
    found = opened(house, f"cat a.py {srv}/data.txt | tee {srv}/new.txt", person=True)
    assert found == Opened((srv / "data.txt",), (srv,))
    found = opened(house, f"cd {srv} && make", person=True)
    assert found.writes == (srv,)
    assert opened(house, f"{srv}/tool --in={srv}/data.txt", person=True).writes == (
        srv / "data.txt",
    )


def test_where_only_a_link_of_the_workspace_leads_is_opened_by_its_name_alone(
    house: House, srv: Path
) -> None:
    (house.work / "build").symlink_to(srv)
    assert opened(house, "cp a.py build/new.txt", person=True) == Opened()
    found = opened(house, "cp a.py build/new.txt", person=True, allow=(f"Edit({srv}/**)",))
    assert found.writes == (srv,)
    assert opened(house, f"cp a.py {srv}/new.txt", person=True).writes == (srv,)


@pytest.mark.parametrize("command", ["x=1", "x=$(date); echo $x", "> {srv}/new.txt"])
def test_a_command_without_a_program_has_a_cage_too(house: House, srv: Path, command: str) -> None:
    found = opened(house, command.format(srv=srv), person=True)
    assert found.writes == ((srv,) if ">" in command else ())


@pytest.mark.parametrize("allow", ["Bash", "Bash(*)", "Write", "Edit", "Bash(cp *)"])
@pytest.mark.parametrize("mode", ["default", "full_auto"])
def test_a_rule_that_names_no_place_opens_none_for_writing(
    house: House, srv: Path, allow: str, mode: Mode
) -> None:
    found = opened(house, f"cp a.py {srv}/new.txt; curl x.org", allow=(allow,), mode=mode)
    assert (found.writes, found.network, found.house) == ((), False, False)


def test_rules_open_what_they_name(house: House, srv: Path) -> None:
    copies = f"cp {srv}/data.txt a.py"
    assert opened(house, copies) == Opened()
    assert opened(house, copies, allow=(f"Read({srv}/**)",)).reads == (srv / "data.txt",)
    assert opened(house, copies, mode="full_auto").reads == (srv / "data.txt",)
    written = opened(house, f"cp a.py {srv}/sub/new", allow=(f"Edit({srv}/**)",))
    assert written.writes == (srv / "sub",)
    assert opened(house, copies, allow=(f"Bash({copies})",)).writes == (srv / "data.txt",)


@pytest.mark.parametrize(
    "path",
    """~/.ssh ~/.ssh/id_rsa ~/.ohmo ~/.ohmo/run/token ~ / /home ~/mixed /proc/1/environ /dev/sda
        /run /run/docker.sock /etc/shadow /tmp link""".split(),
)
def test_what_is_sensitive_or_holds_it_is_never_opened(house: House, srv: Path, path: str) -> None:
    for command in (f"cat {path}", f"cp -r {path} x", f"cd {path} && make", f"tar cf x {path}"):
        for more in ({"person": True}, {"allow": (f"Bash({command})", "Write(/**)", "Read(/**)")}):
            found = opened(house, command, **more)
            assert (found.reads, found.writes) == ((), ()), command


def test_a_denied_place_is_not_opened(house: House, srv: Path) -> None:
    for rule in (f"Read({srv}/data.txt)", f"Read({srv}/**)"):
        assert opened(house, f"cat {srv}/data.txt", person=True, deny=(rule,)) == Opened()
        assert opened(house, f"cp -r {srv} x", person=True, deny=(rule,)) == Opened()


def test_random_words_open_nothing_sensitive(house: House, srv: Path) -> None:
    """A thousand paths through links, ``..`` and spellings, all allowed by a person."""
    chance = random.Random(17)
    parts = ["..", ".", "srv", "work", ".ssh", ".ohmo", "run", "token", "id_rsa", "link", "up", ""]
    closed = [os.path.realpath(house.home / name) for name in (".ssh", ".ohmo", ".aws", ".kube")]
    for _ in range(1000):
        words = "/".join(chance.choice(parts) for _ in range(chance.randint(1, 6)))
        first = chance.choice(["", "~/", f"{srv}/", "up/"])
        found = opened(house, f"cp -r {first}{words} x", person=True)
        for path in map(os.path.realpath, (*found.reads, *found.writes)):
            assert not any(f"{path}/".startswith(f"{each}/") for each in closed), (first, words)
            assert not any(each.startswith(f"{path}/") for each in closed), (first, words)


@pytest.mark.parametrize(
    ("command", "allow", "network"),
    [
        ("git push", "Bash(git push:*)", True),
        ("cd src && git push | tail -3", "Bash(git push:*)", True),
        ("pip install x", "Bash(pip install:*)", True),
        ("git push && python3 a.py", "Bash(git push:*)", False),  # lends it to nobody
        ("curl -s https://x.org/a", "Bash(curl -s https://x.org/a)", True),
        ("make", "Bash(make)", False),
        ("git status", "Bash(git:*)", False),
    ],
)
def test_a_rule_that_names_what_needs_the_network_gives_it(
    house: House, command: str, allow: str, *, network: bool
) -> None:
    (house.work / ".git").mkdir(exist_ok=True)
    (house.work / ".git/config").write_text('[remote "origin"]\n\turl = https://a.org/x\n')
    assert opened(house, command, allow=(allow, "Bash(python3 a.py)")).network is network


@pytest.mark.parametrize(
    "words",
    [
        *("localhost:3000/x", "0:3000/x", "http://127.1:3000/", "http://2130706433:3000/"),
        *("https:/evil.com/", "https://ev%69l.com/", "x.org/a -o b.zip", "'https://{a,b}.org/'"),
    ],
)
def test_what_nobody_can_read_gets_no_more_than_what_can_be_read(house: House, words: str) -> None:
    """All of the network is for who wrote just this command, or says so."""
    for program in ("curl", "wget", "http", "xh", "https"):
        command = f"{program} {words}"
        found = opened(house, command, allow=(f"Bash({program}:*)", "WebFetch(domain:x.org)"))
        assert not found.network, command
        assert opened(house, command, allow=(f"Bash({command})",)).network
        assert opened(house, command, rules=(f"Bash({command})",)).network


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.lists(st.text("ahtps:/.-0127%@[]{}o x\\", max_size=16), max_size=3))
def test_however_it_is_spelled_a_wildcard_opens_names_and_no_more(
    house: House, words: list[str]
) -> None:
    command = f"curl {shlex.join(words)}"
    found = opened(house, command, allow=("Bash(curl:*)", "Bash(curl *)"))
    assert found.names or not found.network


def test_where_a_domain_is_denied_no_wildcard_opens_all(house: House) -> None:
    allow, deny = ("Bash(pip install:*)",), ("WebFetch(domain:evil.com)",)
    assert not opened(house, "pip install x", allow=allow, deny=deny).network
    assert opened(house, "pip install x", allow=("Bash(pip install x)",), deny=deny).network


def test_what_a_job_names_is_the_job_s_own(house: House) -> None:
    rules = ("Bash(ohmo triage http 'http://127.0.0.1:1/x')", "Bash(ohmo cron list:*)")
    triage = opened(house, "ohmo triage http 'http://127.0.0.1:1/x'", rules=rules)
    assert triage == Opened(network=True, house=True)
    assert opened(house, "ohmo cron list", rules=rules).house
    piped = opened(
        house, "make 2>&1 | ohmo triage read", rules=("Bash(make)", "Bash(ohmo triage read)")
    )
    assert (piped.network, piped.house) == (True, False)
    for command in ("ohmo cron list; python3 a.py", "python3 a.py", "ohmo cron list $(cat a.py)"):
        assert opened(house, command, rules=(*rules, "Bash")) == Opened(), command
    assert opened(house, "ohmo cron list", allow=("Bash(ohmo cron list)",)) == Opened()


@pytest.mark.parametrize(
    ("command", "yes"),
    [("git push", True), ("git -C x fetch", True), ("git commit", False), ("pip install x", True),
     ("python3 -m pip install x", True), ("npm run build", False), ("npm ci", True), ("ls", False),
     ("git commit -m pull", False), ("git log --grep clone", False), ("uv --directory x sync", True),
     ("git submodule status", False), ("git submodule update --init", True), ("git", False),
     ("rsync a b", False), ("rsync a host:b", True), ("curl x", True)],
)  # fmt: skip
def test_programs_that_need_the_network_are_known(house: House, command: str, *, yes: bool) -> None:
    assert any(map(networked, house.shell.parse(command, house.work).commands)) is yes


@pytest.mark.parametrize("allow", [("Bash",), ()])
async def test_the_network_is_asked_for_and_given_to_the_call_that_was_allowed(
    house: House, allow: tuple[str, ...]
) -> None:
    policy = house.policy(allow=allow)
    call = ToolCall("t.1", "Bash", {"command": "curl x.org"}, "")
    footprint = Footprint(command="curl x.org", network=True)
    context = replace(house.context("full_auto"), cwd=house.work)

    async def none() -> tuple[()]:
        return ()

    async def unanswered(_: str) -> None:
        return None

    async def allowed(_: str) -> Verdict:
        return Verdict("allowed", person="ada")

    gate = LayeredGate(lambda _: [policy], none)
    asked = await gate.judge(call, footprint, context, unanswered)
    assert isinstance(asked, Ask)
    assert asked.layer.startswith("sandbox")
    decision = await gate.judge(call, footprint, context, allowed)
    assert isinstance(decision, Allow)
    assert decision.judged.opened.network
    silent = await gate.judge(call, replace(footprint, network=False), context, allowed)
    assert isinstance(silent, Allow)
    assert not silent.judged.opened.network


@pytest.mark.parametrize(
    ("names", "allow", "words", "opens"),
    [
        (("a.org:443",), "Bash(git push:*)", (), ("a.org:443",)),
        (("a.org:443",), "WebFetch(domain:a.org)", (), ("a.org:443", ".a.org")),
        (("x.a.org",), "WebFetch(domain:a.org)", ("web:b.org",), ("x.a.org", ".a.org")),
        (("a.org:443",), "WebFetch(domain:b.org)", (), None),
        (("a.org:443",), "WebFetch", (), None),
        (("a.org:443",), "WebFetch(domain:*)", (), None),
        (("a.org:443",), "Bash", (), None),
        (("127.0.0.1:80",), "Bash(git push:*)", (), None),  # this machine: only a person's word
        (("127.0.0.1:80",), "WebFetch(domain:127.0.0.1)", (), None),
        (("127.0.0.1:80",), "Bash(git push)", (), ("127.0.0.1:80",)),
        (("a.org:443",), "Bash(git push:*)", ("web:b.org",), None),  # after words of others
        (("a.org:443",), "Bash(git push:*)", ("web:a.org",), ("a.org:443",)),
        (("a.org:443",), "Bash(git push)", ("web:b.org",), ("a.org:443",)),
        ((), "Bash(git push:*)", (), None),  # nobody can say where
        ((), "Bash(git push)", ("web:b.org",), ()),  # all of it, to who wrote just this
        ((), "Bash(git push:*)", ("web:b.org",), None),
    ],
)
async def test_where_a_command_may_go_by_rules(
    house: House,
    names: tuple[str, ...],
    allow: str,
    words: tuple[str, ...],
    opens: tuple[str, ...] | None,
) -> None:
    """``opens``: None: a person is asked."""
    policy = house.policy(allow=(allow,), deny=("WebFetch(domain:bad.org)",))
    hosts = tuple(name.partition(":")[0] for name in names)
    call = ToolCall("t.1", "Bash", {"command": "git push"}, "")
    footprint = Footprint(command="git push", network=True, names=names, hosts=hosts)
    context = replace(house.context("full_auto"), cwd=house.work, taint=frozenset(words))
    gate = LayeredGate(lambda _: [policy], no_grants)
    decision = await gate.judge(call, footprint, context, none)
    if opens is None:
        assert isinstance(decision, Ask)
        return
    assert isinstance(decision, Allow)
    found = decision.judged.opened
    assert (found.network, found.names) == (True, opens)
    assert found.barred == ((".bad.org",) if opens else ())
    for host in ("bad.org", "x.bad.org"):  # a deny rule goes before all of it
        closed = replace(footprint, names=(*names, f"{host}:443"))
        assert isinstance(await gate.judge(call, closed, context, none), Deny)


@pytest.mark.parametrize(
    ("said", "allow", "words", "opens"),
    [
        ("evil.com:443", ("Bash(git push)",), (), False),
        ("evil.com:443", ("Bash(git push:*)",), (), False),
        ("evil.com:443", ("Bash(git push)",), ("web:b.org",), False),
        ("evil.com:443", ("Bash(git push)",), ("web:evil.com",), False),
        ("127.0.0.1:6379", ("Bash(git push)",), (), False),
        ("127.0.0.1:6379", ("Bash(git push)", "WebFetch(domain:127.0.0.1)"), (), False),
        ("c.org:443", ("Bash(git push)", "WebFetch(domain:c.org)"), (), True),
        ("c.org:443", ("Bash(git push:*)", "WebFetch(domain:c.org)"), ("web:a.org",), True),
        ("c.org:443", ("Bash(git push)", "WebFetch(domain:*)"), (), False),
    ],
)
async def test_a_rule_for_a_command_opens_no_name_that_only_the_model_says(
    house: House, said: str, allow: tuple[str, ...], words: tuple[str, ...], *, opens: bool
) -> None:
    names, hosts = ("a.org:443", said), ("a.org", said.partition(":")[0])
    asked = Footprint(command="git push", network=True, names=names, hosts=hosts, said=(said,))
    for apart in (True, False) if not words else (True,):
        assert await goes(house, replace(asked, apart=apart), allow, words) is opens, apart


@pytest.mark.parametrize(
    ("command", "names", "allow", "words", "opens"),
    [
        ("curl https://a.org", ("a.org:443",), "WebFetch(domain:a.org)", (), False),
        ("sh get.sh", ("a.org",), "WebFetch(domain:a.org)", (), False),
        ("curl https://a.org", ("a.org:443",), "Bash(curl:*)", (), False),
        ("curl https://a.org", ("a.org:443",), "Bash(curl https://a.org)", ("web:b.org",), True),
        ("pip install x", (), "Bash(pip install:*)", (), True),
        ("pip install x", (), "Bash(pip install:*)", ("web:b.org",), False),
        ("pip install x", ("a.org",), "Bash(pip install:*)", ("web:a.org",), False),
    ],
)
async def test_where_a_cage_has_all_or_nothing_no_rule_about_a_domain_opens_it(
    house: House,
    command: str,
    names: tuple[str, ...],
    allow: str,
    words: tuple[str, ...],
    *,
    opens: bool,
) -> None:
    """Landlock, containers."""
    asked = Footprint(command=command, network=True, names=names, apart=False)
    assert await goes(house, asked, (allow,), words) is opens
    if opens:  # all of it
        context = replace(house.context("full_auto"), cwd=house.work)
        found = house.policy(allow=(allow,)).opened(asked, context, (), person=False)
        assert (found.network, found.names) == (True, ())


async def goes(
    house: House, footprint: Footprint, allow: tuple[str, ...], words: tuple[str, ...]
) -> bool:
    """Whether nobody is asked."""
    policy = house.policy(allow=allow)
    call = ToolCall("t.1", "Bash", {"command": footprint.command}, "")
    context = replace(house.context("full_auto"), cwd=house.work, taint=frozenset(words))
    gate = LayeredGate(lambda _: [policy], no_grants)
    return isinstance(await gate.judge(call, footprint, context, none), Allow)


async def test_an_answer_is_for_the_hosts_that_were_shown(house: House) -> None:
    """The settings of a repository may be others by then."""
    policy, asked = house.policy(), list[str]()
    call = ToolCall("t.1", "Bash", {"command": "git push"}, "")

    async def none() -> tuple[()]:
        return ()

    async def answered(digest: str) -> None:
        asked.append(digest)

    gate = LayeredGate(lambda _: [policy], none)
    for name in ("a.org:443", "b.org:443", "a.org:443"):
        footprint = Footprint(command="git push", network=True, names=(name,))
        await gate.judge(call, footprint, house.context(), answered)
    assert asked[0] == asked[2] != asked[1]
