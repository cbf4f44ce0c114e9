"""What decides how the agent thinks: profiles of models, what they cost and may cost, and what they
are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from channels.entry_points import offered
from ohmo.config.section import Section
from ohmo.config.values import Amount, Count, Flag, Many, Secret, Url

BUILT = ("auto", "anthropic", "openai", "offline")
# Known, and refused as coming later; offered nowhere.
UNBUILT = ("claude", "codex", "opencode", "gemini")


def _provider(name: str) -> str:
    """One of another package is called as its entry point; none is imported for it."""
    known = (*BUILT, *sorted(offered("ohmo.providers").names))
    if name not in (*known, *UNBUILT):
        raise ValueError(f"expected one of {', '.join(known)}, not {name!r}")
    return name


ProviderName = Annotated[
    str, AfterValidator(_provider), WithJsonSchema({"type": "string", "enum": list(BUILT)})
]
# RFC 9110, 5.6.2
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
DEFAULT_KEY = {
    "auto": "env:ANTHROPIC_API_KEY",
    "anthropic": "env:ANTHROPIC_API_KEY",
    "openai": "env:OPENAI_API_KEY",
}


# The links around a call of a model, the outermost first (docs/decisions/0036).
CHAIN = (
    "waiting",
    "fallback",
    "tiers",
    "retry",
    "repair",
    "hints",
    "budget",
    "priced",
    "unprefixed",
    "rate",
)


class Rate(Section):
    """What may be asked of an endpoint within a minute; None: what it lets."""

    requests: Count | None = None
    tokens: Count | None = None  # in and out


class Profile(Section):
    provider: ProviderName = "auto"
    base_url: Url | None = None
    api_key: Secret | None = None
    #: Order = tier, small to large; the last is the default.
    models: Many[Annotated[str, Field(min_length=1)]] = ()
    wire: Literal["auto", "chat", "responses"] = "auto"
    effort: Literal["low", "medium", "high"] | None = None
    headers: Mapping[HeaderName, Secret] = Field(default_factory=dict)
    weak_model_hints: Flag | None = None  # None: for local and small models
    rate: Rate = Rate()
    fallback: Many[str] = ()

    @model_validator(mode="after")
    def _own_wire(self) -> Profile:
        if self.wire != "auto" and self.provider == "anthropic":
            raise ValueError("wire chooses between OpenAI's APIs; anthropic has one of its own")
        return self

    @model_validator(mode="before")
    @classmethod
    def _own_key(cls, value: Any) -> Any:
        """The key's default follows the provider, so that ``provider: openai`` alone is enough."""
        written: dict[str, Any] = {} if value is None else value
        if not isinstance(written, dict) or "api_key" in written:
            return value
        provider = written.get("provider", "auto")
        key = DEFAULT_KEY.get(str(provider))
        return written if key is None else {**written, "api_key": key}


class Budget(Section):
    """What may be spent; None: any amount, 0: nothing may be asked."""

    usd: Amount | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None


class Budgets(Section):
    turn: Budget = Budget()
    thread: Budget = Budget()
    person_day: Budget = Budget()
    day: Budget = Budget()
    job: Budget = Budget()


class Pricing(Section):
    """US dollars per million tokens of one model; what reading from or writing to the cache costs
    is what input costs, unless written."""

    input: Amount
    output: Amount
    cache_read: Amount | None = None
    cache_write: Amount | None = None


StableSection = Literal[
    "role",
    "persona",
    "person",
    "effort",
    "skills",
    "delegation",
    "local_rules",
    "project_rules",
    "environment",
]
ChangingSection = Literal["date", "branch", "issue", "pull_request", "memories", "skills"]


class PromptBudgets(Section):
    """Tokens (estimated) that a section may take."""

    role: Count = 400
    persona: Count = 4_000
    person: Count = 4_000
    effort: Count = 100
    skills: Count = 1_500
    delegation: Count = 1_000
    local_rules: Count = 4_000
    project_rules: Count = 8_000
    environment: Count = 500
    changing: Count = 2_000
    memories: Count = 1_500


class Prompt(Section):
    sections: Many[StableSection] = get_args(StableSection)
    changing: Many[ChangingSection] = get_args(ChangingSection)
    budgets: PromptBudgets = PromptBudgets()
    # names of rule files that are read although git ignores them
    ignored_rules: Many[Annotated[str, Field(min_length=1)]] = ()


class CarrySizes(Section):
    """Entries that stay when a conversation is made shorter."""

    goals: Annotated[int, Field(ge=0, le=64)] = 5
    read_files: Annotated[int, Field(ge=0, le=64)] = 6
    artifacts: Annotated[int, Field(ge=0, le=64)] = 8
    tasks: Annotated[int, Field(ge=0, le=64)] = 12
    work_log: Annotated[int, Field(ge=0, le=64)] = 10
    refusals: Annotated[int, Field(ge=0, le=64)] = 40


class Context(Section):
    #: Share of the room at which a conversation is made shorter while nobody waits.
    compact_at: Annotated[float, Field(gt=0, le=1)] = 0.7
    keep_exchanges: Count = 5
    carry: CarrySizes = CarrySizes()
