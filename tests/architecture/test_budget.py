"""How much a reader has to carry: sizes of the whole, of each room and of the spine. Bounds fall;
they rise only with what is newly promised."""

from __future__ import annotations

import ast
import re

from tests.architecture.house_report import figures, modules
from tests.architecture.test_walks import PAGE, ROOT, walks

# As measured when the house was tidied (docs/decisions/0021), and what context, memory, budgets,
# checkpoints and tools took (docs/decisions/0028), what walls and doors take (0038), plugins, and
# cages of hooks and servers, names of the network, containers and trust in chat (0040 to 0043),
# names that commands hand on, and hooks around a turn (0046 to 0048).
MODULES = 391 + 115 + 99
LINES = 76_920 + 16_600 + 16_060
TEST_LINES = 90_800 + 13_100 + 15_150
ROOMS = 50
IN_A_ROOM = 15  # modules that are no item of a shelf
# Rooms with more, by how much and why; may only shrink.
FULL = {
    "ohmo.contracts": 19,  # what rooms share, a module for each subject
    "ohmo.providers": 19,  # six of them stand in middleware/: what its links share
    "ohmo.control": 17,  # trust and skills
    "ohmo.store": 18,  # an operation's module for each table
    "ohmo.shell": 17,  # two readers of bash: the exact one that frees, the grammar that forbids
}
NODES_PER_LINE = 5.981  # of the syntax tree, per line of code
USED_ONCE = 0.1452  # share of all functions that are private and used at one place
ONE_IMPORTER = 0.1002  # share of all modules that one neighbour alone imports
SPINE_MODULES = 45
SPINE_LINES = 7_326
WIDEST = 10  # fields of a record
# Wider ones, each with its reason.
WIDE = {
    "ohmo.assembly.agent.AgentParts": "what runs turns: what assembly returns",
    "ohmo.assembly.deps.Environment": "the world outside, which tests bring",
    "ohmo.config.agent.PromptBudgets": "a budget per section, from the configuration",
    "channels.telegram.updates.Message": "the platform's own record",
    "channels.feishu.inbound.Spoken": "the platform's own record",
    "channels.contract.Capabilities": "what platforms differ in, each explained at its field",
    "channels.contract.Outbound": "what may be said; all but two have defaults",
    "ohmo.providers.models.Endpoint": "a profile with its secrets, a field per key",
    "ohmo.config.load.Config": "the configuration, a field per section of the file",
    "ohmo.config.models.Written": "the configuration as written, a field per section",
    "ohmo.config.models.Job": "a job as written, a field per key",
    "ohmo.control.write_api.Change": "a job as the API takes it, a field per key",
    "ohmo.contracts.cron.JobSpec": "a job, a field per key",
    "ohmo.contracts.cron.OccurrenceRow": "a row of the store",
    "ohmo.contracts.outbox.OutRow": "a row of the store",
    "ohmo.contracts.reports.ArrivalInfo": "a row of the store",
    "ohmo.contracts.arrivals.Wake": "a row of the store",
    "ohmo.contracts.reports.HouseStatus": "what `ohmo status --json` prints",
    "ohmo.contracts.messages.ToolResult": "what a call brought, stored whole",
    "ohmo.contracts.tool.Footprint": "what a call touches; all fields have defaults",
    "ohmo.contracts.hooks.Hooked": "what a hook is told, a field per fact",
    "ohmo.contracts.tool.CallContext": "what a tool is handed",
    "ohmo.contracts.tool.Question": "what a person is asked, stored whole",
    "ohmo.sessions.planner.TurnPlan": "what a turn was planned with, stored whole",
    "ohmo.assembly.house.House": "the parts of the daemon: what assembly returns",
    "ohmo.control.ports.Ports": "what control asks of the house, a field per part of the API",
    "ohmo.control.webhooks.Webhook": "a webhook as configured, a field per key",
    "ohmo.gateway.switchboard.BoardParts": "what every connection needs, handed on whole",
    "ohmo.gateway.connections.Health": "what /readyz says of a channel",
    "ohmo.gateway.drafts._Slot": "one running turn as it is shown",
    "ohmo.tools.workbench.Limits": "a limit per tool, from the configuration",
    "ohmo.tools.workbench.Workbench": "what tools are built from",
    "ohmo.tools.grep.GrepInput": "the arguments of the tool, as models know them",
    "ohmo.doctor.check.Facts": "what checks look at",
    "ohmo.doctor.check.Machine": "what checks look at",
    "ohmo.setup.answers.Answers": "what `ohmo init` asks",
    "ohmo.cli.wizard.InitFlags": "what `ohmo init` asks",
    "ohmo.service.upgrading.Parts": "the programs an upgrade calls",
    "ohmo.control.ports.StatusReporter": "what the status is put together from",
    "ohmo.processes.job.Command": "how one command runs, most with a default",
    "ohmo.sandbox.walls.CageSettings": "the configuration's sandbox and the places of this machine",
    "ohmo.contracts.turns.ThreadSettings": "what a person chose for one thread",
    "ohmo.gateway.orders.CommandQueries": "what slash commands ask of the house",
}


def test_the_house_stays_within_its_size() -> None:
    whole = figures()
    rooms = {module.room for module in modules().values() if "." in module.room}
    assert whole.modules <= MODULES
    assert whole.lines <= LINES
    assert whole.nodes_per_line <= NODES_PER_LINE
    assert whole.used_once <= USED_ONCE
    assert whole.continuations <= ONE_IMPORTER
    assert len(rooms) <= ROOMS


def test_no_room_has_more_modules_than_a_reader_keeps_in_mind() -> None:
    rooms = {module.room for module in modules().values()}
    counts = {room: figures(room).structural for room in rooms}
    assert {
        room: count for room, count in counts.items() if count > FULL.get(room, IN_A_ROOM)
    } == {}


def test_the_spine_can_be_read_in_a_day() -> None:
    page = PAGE.read_text(encoding="utf-8")
    words = page.partition("## The spine")[2].partition("\n## ")[0]
    files = {stop.file for stops in walks().values() for stop in stops}
    files |= set(re.findall(r"`((?:ohmo|channels)/[a-z_/]+\.py)`", words))
    lines = sum((ROOT / file).read_text(encoding="utf-8").count("\n") for file in files)
    assert len(files) <= SPINE_MODULES
    assert lines <= SPINE_LINES


def test_a_record_wider_than_ten_fields_has_its_reason() -> None:
    wide: dict[str, int] = {}
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                fields = sum(isinstance(inner, ast.AnnAssign) for inner in node.body)
                if fields > WIDEST:
                    wide[f"{module.name}.{node.name}"] = fields
    assert sorted(wide.keys() - WIDE.keys()) == []
    assert sorted(WIDE.keys() - wide.keys()) == [], "these are narrow now: take them out"


def test_the_tests_stay_within_their_size() -> None:
    files = (ROOT / "tests").rglob("*.py")
    assert sum(file.read_text(encoding="utf-8").count("\n") for file in files) <= TEST_LINES
