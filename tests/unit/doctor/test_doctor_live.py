"""What --live asks: a scripted model server on loopback, and platforms nobody answers for."""

from __future__ import annotations

import asyncio
import email.utils
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ohmo.doctor.check import Finding
from ohmo.doctor.examination import examine
from tests.platforms.model.script import Turn
from tests.platforms.model.server import ModelServer, serving

sys.path.insert(0, str(Path(__file__).parent))
from patient import Patient


class Served:
    """The model server on a loop of its own, because a check brings its own loop."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self._up = threading.Event()
        self._down = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        async with serving(self.server):
            self._up.set()
            await asyncio.to_thread(self._down.wait)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        assert self._up.wait(20)
        return self.server

    def __exit__(self, *_: object) -> None:
        self._down.set()
        self._thread.join(20)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with Served() as server:
        yield server


@pytest.fixture
def patient(tmp_path: Path, model: ModelServer) -> Patient:
    found = Patient(tmp_path)
    found.config("http://127.0.0.1:1", f"{model.url}/v1")
    found.config("http://127.0.0.1:2", model.url)
    return found


def asked(patient: Patient, name: str) -> Finding:
    return next(finding.finding for finding in examine(patient.facts(), live=True, only=(name,)))


@pytest.mark.parametrize(
    ("turn", "text", "step"),
    [
        (
            Turn(status=404, kind="model_not_found", message="no such model"),
            "there is no model fake-1 at this endpoint",
            "one of these into models:",
        ),
        (
            Turn(status=404, kind="model_not_found", message="no such model"),
            "; it has fake-1",
            "models:",
        ),
        (Turn(status=402, message="Insufficient Balance"), "the account cannot pay", "add credit"),
        (
            Turn(status=403, message="no access to this model"),
            "the key may not use this",
            "what the key may use",
        ),
        (
            Turn(status=401, kind="invalid_api_key", message="wrong key"),
            "the key is not accepted",
            "make a new key",
        ),
        (Turn(empty=True), "answered with nothing", "another model"),
        (Turn(status=529, kind="overloaded_error", message="busy"), "overloaded", "fallback"),
        (Turn(status=400, message="this field is not known"), "refuses the request", "same wire"),
    ],
)
def test_a_model_that_does_not_answer_is_told_with_the_next_step(
    turn: Turn, text: str, step: str, patient: Patient, model: ModelServer
) -> None:
    model.next(turn)
    found = asked(patient, "model.answers")
    assert found.state == "problem"
    assert text in found.text
    assert step in found.next
    assert model.count == 1  # nothing is tried again


def test_a_model_server_that_is_not_there_is_said_to_be_absent_and_not_slow(tmp_path: Path) -> None:
    patient = Patient(tmp_path)
    patient.config("http://127.0.0.1:1", "http://127.0.0.1:9/v1")
    found = asked(patient, "model.answers")
    assert "nobody answers there (openai (127.0.0.1): cannot be reached" in found.text
    assert "the connection is refused: nothing listens there" in found.text
    assert "start the model server" in found.next


def test_a_model_that_is_not_there_is_told_with_those_that_are(
    patient: Patient, model: ModelServer
) -> None:
    model.models = ["llama-3", "fake-2", "text-embedding-3", *(f"other-{n:02}" for n in range(20))]
    found = asked(patient, "model.answers")
    assert "there is no model fake-1 at this endpoint" in found.text
    assert "; it has fake-2, llama-3, other-00" in found.text
    assert found.text.endswith("and 10 more")
    assert "embedding" not in found.text


def test_model_and_fallback_that_answer_are_right(patient: Patient, model: ModelServer) -> None:
    assert asked(patient, "model.answers").state == "ok"
    assert asked(patient, "model.fallback").state == "ok"
    model.next(Turn(status=401, kind="authentication_error", message="wrong key"))
    assert "make a new key" in asked(patient, "model.fallback").next


def test_nothing_is_asked_without_live(patient: Patient, model: ModelServer) -> None:
    assert {
        finding.finding.state
        for finding in examine(patient.facts(), only=("model.answers", "channels.telegram"))
    } == {"skipped"}
    assert model.count == 0


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (-7, "7 minutes behind that of 127.0.0.1"),
        (7, "7 minutes ahead of that of 127.0.0.1"),
        (60 * 24 * 400, "400 days ahead of"),
        (-300, "5 hours behind"),
    ],
)
def test_a_wrong_clock_is_told_by_the_date_of_whoever_answers(
    minutes: int, said: str, patient: Patient, model: ModelServer
) -> None:
    patient.config(
        "{enabled: true, groups: open}", f"{{enabled: true, groups: open, api_url: '{model.url}'}}"
    )
    patient.machine["clock"] = lambda: time.time() + 60 * minutes
    found = asked(patient, "machine.clock")
    assert found.state == "problem", found
    assert said in found.text
    assert "timedatectl" in found.next
    assert model.count == 0  # no word of a model was paid for it


@pytest.mark.parametrize("seconds", [0, 90, -90])
def test_a_clock_that_is_right_or_nearly_so_is_fine(
    seconds: int, patient: Patient, model: ModelServer
) -> None:
    patient.config(
        "{enabled: true, groups: open}", f"{{enabled: true, groups: open, api_url: '{model.url}'}}"
    )
    patient.machine["clock"] = lambda: time.time() + seconds
    assert asked(patient, "machine.clock").state == "ok"


def test_a_slow_trip_is_no_wrong_clock(patient: Patient, model: ModelServer) -> None:
    """Ten minutes between the question and the answer: the Date lies somewhere between. The
    platform and the model are one place here, asked once."""
    patient.config(
        "{enabled: true, groups: open}", f"{{enabled: true, groups: open, api_url: '{model.url}'}}"
    )
    began = time.time()
    times = iter([began - 300, began + 300])
    patient.machine["clock"] = lambda: next(times)
    assert asked(patient, "machine.clock").state == "ok"


def test_who_is_asked_for_the_time_and_says_none_is_no_problem(patient: Patient) -> None:
    class Dateless(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nDate: soon\r\nContent-Length: 0\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Dateless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        patient.write(
            "config.yaml",
            f"profiles: {{default: {{provider: openai, base_url: '{url}', api_key:"
            " env:OPENAI_API_KEY, models: [m]}}\n",
        )
        found = asked(patient, "machine.clock")
        server.shutdown()
    assert (found.state, found.text) == (
        "skipped",
        "nobody who could be asked for the time answered",
    )


def test_whoever_is_asked_for_the_time_is_told_no_password_that_the_machine_keeps(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's certificate is looked at for the time, so whoever answers may be anybody."""
    heard: list[bytes] = []

    class Curious(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while (line := self.rfile.readline()).strip():
                heard.append(line.lower())
            now = email.utils.formatdate(usegmt=True).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nDate: " + now + b"\r\nContent-Length: 0\r\n\r\n")

    (tmp_path / "netrc").write_text("default login ada password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Curious) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        patient.write(
            "config.yaml",
            f"profiles: {{default: {{provider: openai, base_url: '{url}', api_key:"
            " env:OPENAI_API_KEY, models: [m]}}\n",
        )
        found = asked(patient, "machine.clock")
        server.shutdown()
    assert found.state == "ok"
    assert [line for line in heard if line.startswith(b"host:")]
    assert not [line for line in heard if b"authorization" in line]


def test_a_machine_with_nobody_to_ask_says_so(patient: Patient) -> None:
    patient.write("config.yaml", "profiles: {default: {provider: offline}}\n")
    assert asked(patient, "machine.clock").state == "skipped"


CHANNELS = {
    "telegram": "telegram: {enabled: true, groups: open, api_url: @URL}",
    "slack": (
        "slack: {enabled: true, groups: open, bot_token: env:BOT, app_token: env:APP, api_url:"
        " @URL/api/}"
    ),
    "matrix": (
        'matrix: {enabled: true, groups: open, homeserver: @URL, user: "@o:x", access_token:'
        " env:BOT}"
    ),
}


@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_a_platform_that_cannot_be_reached_is_told_with_the_next_step(
    name: str, patient: Patient
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        patient.environ.update(BOT="xoxb-1", APP="xapp-1")
        patient.config(
            "telegram: {enabled: true, groups: open}", CHANNELS[name].replace("@URL", url)
        )
        found = asked(patient, f"channels.{name}")
    assert found.state == "problem", found
    assert "network, proxy, api_url" in found.next
