"""The pure pieces of the providers: errors, arguments, prices, the offline syntax, detection, late
import."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ohmo.contracts.errors import (
    BadKey,
    ConfigError,
    NoMoney,
    NoSuchModel,
    NotAllowed,
    Overloaded,
    ProviderError,
    Refused,
    TooLong,
)
from ohmo.contracts.messages import (
    UNREADABLE,
    CallResult,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.provider import ModelRequest, Reply, ToolSpec
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests, model, settled
from ohmo.providers.lazy_provider import LazyProvider
from ohmo.providers.middleware.priced import price_of
from ohmo.providers.model_list import Listed, detect, has, probe
from ohmo.providers.models import UNKNOWN_WINDOW, Endpoint, Price, known
from ohmo.providers.offline import asked_for
from ohmo.providers.openai.client import with_version
from ohmo.providers.wire_parts import arguments, classify, retry_after, told_window
from ohmo_testing.scripted import Says, ScriptedProvider
from tests.platforms.model.server import ModelServer, serving
from tests.programs import python, run_process

OVERFLOWS = [
    "prompt is too long: 208310 tokens > 200000 maximum",
    (
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input"
        " length or `max_tokens` and try again"
    ),
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in"
        " 150000 tokens."
    ),
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    (
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens"
        " (112946 in the messages, 10000 in the completion)."
    ),
    (
        "You passed 1015 input tokens and requested 10 output tokens. However, the model's context"
        " length is only 1024 tokens"
    ),
    (
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make"
        " sure that `max_model_len` is no smaller"
    ),
    (
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is"
        " loaded with context length of only 32768 tokens"
    ),
    "the request exceeds the available context size, try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Reached context length of 4096 tokens with model: context overflow policy",
    "the input length exceeds the context length",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_overflow_is_known_by_the_words_of_every_maker(text: str) -> None:
    for status in (400, 500, None):
        assert isinstance(classify("x", "m", status, "", text), TooLong)


@pytest.mark.parametrize(
    ("status", "kind", "text", "expected"),
    [
        (400, "invalid_request_error", "max_tokens: must be at least 1", Refused),
        (400, "", "messages: context is missing", Refused),
        (402, "", "Insufficient Balance", NoMoney),
        (403, "", "your organization has no access to this", NotAllowed),
        (429, "insufficient_quota", "You exceeded your current quota", NoMoney),
        (400, "", "Your credit balance is too low to access the API", NoMoney),
        (429, "", "Number of request tokens has exceeded your per-minute rate limit", Overloaded),
        (400, "", 'model "qwen" not found, try pulling it first', NoSuchModel),
        (404, "", "no route", NoSuchModel),
        (None, "authentication_error", "bad", BadKey),
        (None, "overloaded_error", "Overloaded", Overloaded),
    ],
)
def test_other_refusals_have_their_class(
    status: int | None, kind: str, text: str, expected: type[ProviderError]
) -> None:
    assert type(classify("x", "m", status, kind, text)) is expected


def test_an_error_is_one_line_that_names_where_and_what() -> None:
    line = str(classify("anthropic (gw.example)", "claude-x", 404, "", "model:\n nope"))
    assert (
        line == "anthropic (gw.example): there is no model claude-x at this endpoint (model: nope)"
    )


@pytest.mark.parametrize(
    ("text", "window"),
    [
        (OVERFLOWS[0], 200_000),
        (OVERFLOWS[2], 128_000),
        (OVERFLOWS[5], 1024),
        (OVERFLOWS[7], 32_768),
        (OVERFLOWS[8], None),
    ],
)
def test_the_window_is_read_from_the_overflow_error(text: str, window: int | None) -> None:
    assert told_window(text) == window


def test_retry_after_is_read_in_seconds_milliseconds_and_as_a_date() -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_after({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, now) == 30
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": [1, 2,], "b": "x,}",}', {"a": [1, 2], "b": "x,}"}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": "\\"], ,}"}', {"a": '"], ,}'}),
        ('{"a": 1', {UNREADABLE: '{"a": 1'}),
        ("[1]", {UNREADABLE: "[1]"}),
        ("null", {UNREADABLE: "null"}),
        ("[" * 100_000, {UNREADABLE: "[" * 100_000}),
    ],
)
def test_arguments_are_repaired_only_where_no_value_can_change(
    text: str, expected: dict[str, object]
) -> None:
    assert arguments(text) == expected


def test_windows_and_prices_go_by_family_and_a_gateways_prefix_does_not_matter() -> None:
    assert (
        known("anthropic/claude-sonnet-5-5").window
        == known("claude-sonnet-5-5-20261001").window
        == 1_000_000
    )
    assert price_of("claude-opus-5-5", {}) == Price(4, 0.2, 5, 20)
    assert price_of("claude-opus-5", {}) == Price(5, 0.5, 6.25, 25)
    assert price_of("gpt-5.1", {}) is None  # another version than gpt-5: no guess
    assert known("gpt-5.1").window == 128_000
    assert known("qwen3-coder-30b").window == UNKNOWN_WINDOW
    sonnet, sol = price_of("claude-sonnet-5-5", {}), price_of("gpt-6-sol", {})
    assert sonnet is not None
    assert sonnet.micro_usd(1_000, 10_000, 100, 50) == 2_000 + 2_000 + 250 + 500
    assert sol is not None
    assert sol.micro_usd(300_000, 0, 0, 100) == 300_000 * 4 + 1_500


def test_a_written_price_comes_before_a_known_one_and_needs_no_maker() -> None:
    mine, other = Price(1, 1, 1, 2), Price(3, 3, 3, 4)
    assert price_of("qwen/qwen3", {"qwen3": mine}) == price_of("qwen3", {"qwen3": mine}) == mine
    assert price_of("a/qwen3", {"qwen3": mine, "a/qwen3": other}) == other
    assert price_of("gpt-5", {"gpt-5": mine}) == mine
    assert price_of("qwen3-30b", {"qwen3": mine}) is None


@pytest.mark.parametrize(
    "wanted",
    ["claude-haiku-4-5", "claude-haiku-latest", "a/qwen3", "qwen3:latest", "gpt-5", "openai/gpt-5"],
)
def test_a_model_is_known_by_its_short_name_too(wanted: str) -> None:
    assert has(["claude-haiku-4-5-20251001", "qwen3:latest", "openai/gpt-5"], wanted)
    assert not has(["gpt-5-mini-2027", "mistral"], f"{wanted}x")


READ = ToolSpec(
    "Read",
    "",
    {
        "properties": {"file_path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["file_path"],
    },
)
BASH = ToolSpec(
    "Bash", "", {"properties": {"command": {"type": "string"}}, "required": ["command"]}
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run Read file_path=README.md", ("Read", {"file_path": "README.md"})),
        (
            'please run read file_path="my file.md" limit=5',
            ("Read", {"file_path": "my file.md", "limit": 5}),
        ),
        ("Bash: ls -l", ("Bash", {"command": "ls -l"})),
        ("Bash: X=1 make", ("Bash", {"command": "X=1 make"})),
        ("run Bash command='ls -l | wc'", ("Bash", {"command": "ls -l | wc"})),
        ('run Read {"file_path": "a", "limit": 2}', ("Read", {"file_path": "a", "limit": 2})),
        ("Read: README.md", ("Read", {"file_path": "README.md"})),
        ("hello", None),
        ("Note: buy milk", None),
        ("run the tests please", None),
        ("Run exactly this command, once, with Bash:\n\n    ohmo triage read", None),
        (
            (
                "Bash: date\n\n(This is the scheduled run of the job tick, due now. Nobody may be"
                " there to answer.)"
            ),
            ("Bash", {"command": "date"}),
        ),
        ("Bash: date\n\n(cd x; ls)", ("Bash", {"command": "date\n\n(cd x; ls)"})),
    ],
)
def test_a_newcomer_can_name_a_tool(text: str, expected: object) -> None:
    assert asked_for(text, (READ, BASH)) == expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("run Fly", "There are: Read, Bash"),
        ("run fly speed=2", "There are: Read, Bash"),
        ("run Raed README.md", "There are: Read, Bash"),
        ('run Read file_path="a', "close the quotes"),
        ("run Read {a}", "not valid JSON"),
        ("run Read file_path=a b", "no key=value"),
    ],
)
def test_a_tool_that_was_named_wrongly_gets_one_clear_line(text: str, word: str) -> None:
    answer = asked_for(text, (READ, BASH))
    assert isinstance(answer, str)
    assert word in answer


async def offline(steps: tuple[Step, ...]) -> ModelStep:
    made = await model([Endpoint("offline")], manifests(scan), load, {})
    *_, last = [
        event
        async for event in made.call(
            ModelRequest("offline", (), (READ, BASH), steps, 100, None, "turn")
        )
    ]
    assert isinstance(last, Reply)
    return last.step


async def test_offline_says_what_is_missing_runs_a_named_tool_and_reports_its_result() -> None:
    said = UserStep((Text("hello"),), "ada", "message")
    (block,) = (await offline((said,))).blocks
    assert isinstance(block, Text)
    assert "ANTHROPIC_API_KEY" in block.text
    asked = UserStep((Text("Bash: ls"),), "ada", "message")
    step = await offline((asked,))
    (call,) = step.blocks
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments, step.stop) == ("Bash", {"command": "ls"}, "tools")
    (report,) = (await offline((asked, step, CallResult(ToolResult(call.id, "README.md"))))).blocks
    hook = UserStep((Text("(A hook says: go on)"),), "hook:h", "hook")
    last = ModelStep((report,), "offline", "end")
    results = CallResult(ToolResult(call.id, "README.md"))
    assert (await offline((asked, step, results, last, hook))).blocks == (report,)
    assert isinstance(report, Text)
    assert report.text == "Bash says:\n\n```\nREADME.md\n```"
    (denied,) = (
        await offline((asked, step, CallResult(ToolResult(call.id, "denied", error=True))))
    ).blocks
    assert isinstance(denied, Text)
    assert denied.text.startswith("Bash could not do it")


def nobody(found: Mapping[str, Sequence[Listed]] = {}):
    async def ask(url: str) -> Sequence[Listed] | None:
        return found.get(url)

    return ask


@pytest.mark.parametrize(
    ("environ", "provider", "why"),
    [
        (
            {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"},
            "anthropic",
            "ANTHROPIC_API_KEY is set",
        ),
        ({"OPENAI_API_KEY": "o"}, "openai", "OPENAI_API_KEY is set"),
        (
            {"ANTHROPIC_API_KEY": ""},
            "offline",
            (
                "no ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment, no LM Studio, Ollama,"
                " vLLM or llama.cpp on this machine"
            ),
        ),
    ],
)
async def test_auto_looks_for_keys_in_order_and_says_why(
    environ: dict[str, str], provider: str, why: str
) -> None:
    found = await detect(Endpoint("auto"), manifests(scan), environ, ask=nobody())
    assert found.endpoint.provider == provider
    assert why in found.explanation
    assert found.endpoint.models


async def test_auto_finds_a_local_server_takes_its_window_and_gives_it_no_key() -> None:
    servers = {
        "http://127.0.0.1:11434": [Listed("qwen3:8b", 40_960)],
        "http://127.0.0.1:8000": [Listed("other", None)],
    }
    found = (await detect(Endpoint("auto"), manifests(scan), {}, ask=nobody(servers))).endpoint
    assert (found.provider, found.model, found.base_url, found.window, found.api_key) == (
        "openai",
        "qwen3:8b",
        "http://127.0.0.1:11434",
        40_960,
        None,
    )


@pytest.mark.parametrize("port", [1234, 11434, 8000, 8080])
async def test_auto_finds_every_local_server_where_it_listens_by_itself(port: int) -> None:
    servers = {f"http://127.0.0.1:{port}": [Listed("m", None)]}
    wanted = Endpoint("auto", headers={"X-Team": "secret"})
    found = (await detect(wanted, manifests(scan), {}, ask=nobody(servers))).endpoint
    assert (found.model, found.base_url) == ("m", f"http://127.0.0.1:{port}")
    assert not found.headers  # nothing secret goes to a server that was merely found


async def test_the_window_a_local_server_has_loaded_is_taken() -> None:
    said = {"data": [{"id": "qwen", "meta": {"n_ctx": 16_384, "n_ctx_train": 40_960}}]}

    async def models(_: web.Request) -> web.Response:
        return web.json_response(said)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with TestServer(app) as server:
        assert await probe(str(server.make_url("")).rstrip("/")) == [Listed("qwen", 16_384)]


async def test_a_key_in_an_automatic_profile_goes_to_its_maker() -> None:
    for key, provider in (("sk-ant-x", "anthropic"), ("sk-proj-x", "openai")):
        found = (
            await detect(Endpoint("auto", api_key=key), manifests(scan), {}, ask=nobody())
        ).endpoint
        assert (found.provider, found.api_key) == (provider, key)


async def test_the_probe_reads_a_model_list_and_a_missing_server_is_nothing() -> None:
    async with serving(ModelServer(models=["nomic-embed-text", "llama-3"])) as server:
        assert [each.name for each in await probe(server.url) or ()] == ["llama-3"]
        gone = server.url
    assert await probe(gone) is None


def test_an_unknown_provider_is_one_line_with_what_there_is() -> None:
    with pytest.raises(
        ConfigError,
        match=(
            r"profiles.work.provider: 'opnai' is not known; there are auto, anthropic, offline,"
            r" openai"
        ),
    ):
        settled(Endpoint("opnai", profile="work"), manifests(scan), {})


def test_a_key_in_the_profile_goes_before_the_one_in_the_environment() -> None:
    environ = {"OPENAI_API_KEY": "theirs"}
    assert settled(Endpoint("openai", api_key="mine"), manifests(scan), environ).api_key == "mine"
    assert settled(Endpoint("openai"), manifests(scan), environ).api_key == "theirs"


def test_covers_import_no_sdk() -> None:
    code = (
        "import sys; from ohmo.discovery import scan; from ohmo.providers.build import manifests,"
        " model; manifests(scan); print([m for m in ('anthropic', 'openai', 'httpx2') if m in"
        " sys.modules])"
    )
    printed = python(code, cwd=Path(__file__).parents[3])
    assert printed.strip() == "[]"


async def test_a_cancelled_first_turn_does_not_stop_the_import_for_the_next() -> None:
    loads: list[str] = []

    def counting(spec: str) -> object:
        loads.append(spec)
        return load(spec)

    provider = LazyProvider(manifests(scan)["anthropic"], Endpoint("anthropic", ("m",)), counting)
    first = asyncio.create_task(provider.warm())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.gather(provider.warm(), provider.warm())
    assert loads == ["ohmo.providers.anthropic.client:AnthropicClient"]
    await provider.aclose()


async def test_a_broken_package_is_a_refusal_in_one_line_and_is_tried_again() -> None:
    def broken(spec: str) -> object:
        return load("ohmo.no_such_room:Thing")

    provider = LazyProvider(manifests(scan)["openai"], Endpoint("openai", ("m",)), broken)
    for _ in range(2):
        with pytest.raises(Refused, match="cannot be imported"):
            await provider.warm()
    await provider.aclose()


def test_a_base_url_with_and_without_version_is_the_same_endpoint() -> None:
    assert (
        with_version("http://127.0.0.1:1234")
        == with_version("http://127.0.0.1:1234/")
        == "http://127.0.0.1:1234/v1"
    )
    assert with_version("https://gw.example/openai/v2") == "https://gw.example/openai/v2"
    assert with_version(None) is None


def test_keys_are_not_shown() -> None:
    assert "secret" not in repr(Endpoint("openai", api_key="secret"))


@pytest.mark.parametrize("spec", ["nowhere", "ohmo.nowhere:Thing", "ohmo.ambient:Nothing"])
def test_what_cannot_be_loaded_is_one_line(spec: str) -> None:
    with pytest.raises(ConfigError, match=spec.split(":", maxsplit=1)[0]):
        load(spec)


def test_two_of_the_same_name_stop_the_start(tmp_path: Path) -> None:
    room = tmp_path / "twins_of_ohmo"
    room.mkdir()
    (room / "__init__.py").write_text("")
    for name in ("one", "two"):
        (room / f"{name}.py").write_text("class _M:\n    name = 'same'\nMANIFEST = _M()\n")
    code = "from ohmo.discovery import scan; scan('twins_of_ohmo', 'MANIFEST')"
    done = run_process(
        sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"
    )
    assert "twins_of_ohmo.one and twins_of_ohmo.two both call themselves 'same'" in done.stderr


async def test_the_scripted_provider_answers_in_turn_and_then_echoes() -> None:
    provider = ScriptedProvider([Says("look", (("Read", {"file_path": "a"}),)), Overloaded()])
    request = ModelRequest(
        "m", (), (), (UserStep((Text("hi"),), "ada", "message"),), 10, None, "turn"
    )
    *_, first = [event async for event in provider.stream(request)]
    assert isinstance(first, Reply)
    assert first.step.stop == "tools"
    with pytest.raises(Overloaded):
        _ = [event async for event in provider.stream(request)]
    *deltas, last = [event async for event in provider.stream(request)]
    assert isinstance(last, Reply)
    assert last.step.blocks == (Text("echo: hi"),)
    assert len(deltas) == 2
    assert len(provider.requests) == 3
