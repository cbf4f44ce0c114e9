"""The tables, one text for both engines, and the way from every older version to this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ohmo.ambient import Failpoint
from ohmo.contracts.errors import StoreError
from ohmo.store.statements import Op

# SQLite >= 3.37 and PostgreSQL >= 14. Ids: TEXT made by the house. Times: ms UTC. Bodies:
# ASCII-escaped JSON in TEXT, so NUL and lone surrogates survive both engines. No serials, no clock
# of the engine: every statement takes the time from outside. Law 1: a transaction that touches a
# thread locks its threads row first (several: in order of thread); that UPDATE is also the fence
# and the
#        allocator of seq. What must be decided under the lock stands on that row (ready_at,
#        parked), because a statement that waited for a row
#        sees the new row but the old rest.
# Law 2: seq is one number line per thread for arrivals, steps, questions and posts. Law 3: rows of
# inbox, steps and audit are never rewritten, only ended.
_FIRST = """
CREATE TABLE threads (
  thread TEXT PRIMARY KEY, channel TEXT NOT NULL, account TEXT NOT NULL, chat TEXT NOT NULL,
  topic TEXT NOT NULL, person TEXT NOT NULL,
  session_seq BIGINT NOT NULL DEFAULT 0, settings TEXT NOT NULL DEFAULT '{}',
  next_seq BIGINT NOT NULL DEFAULT 1, last_at BIGINT,
  ready_at BIGINT, parked INTEGER NOT NULL DEFAULT 0, owner TEXT, until BIGINT NOT NULL DEFAULT 0,
  generation BIGINT NOT NULL DEFAULT 0,
  UNIQUE (channel, account, chat, topic, person));
CREATE INDEX threads_ready ON threads (ready_at) WHERE ready_at IS NOT NULL;
CREATE TABLE seen (
  channel TEXT NOT NULL, account TEXT NOT NULL, event_key TEXT NOT NULL, thread TEXT NOT NULL,
  seq BIGINT NOT NULL, at BIGINT NOT NULL,
  PRIMARY KEY (channel, account, event_key)) /*without rowid*/;
CREATE INDEX seen_at ON seen (at);
CREATE TABLE inbox (
  thread TEXT NOT NULL REFERENCES threads, seq BIGINT NOT NULL, sort TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('message','wake','edit','reaction','answer','command')),
  message TEXT NOT NULL, album TEXT NOT NULL, person TEXT NOT NULL, said_at BIGINT NOT NULL,
  at BIGINT NOT NULL, ready_at BIGINT NOT NULL,
  body TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('waiting','taken','ended')), turn TEXT,
  ending TEXT
    CHECK (ending IN ('answered','merged','noted','refused','stopped','superseded','dead')),
  reason TEXT, ended_at BIGINT,
  PRIMARY KEY (thread, seq), CHECK ((state = 'ended') = (ending IS NOT NULL)),
  CHECK ((state = 'ended') = (ended_at IS NOT NULL)));
CREATE INDEX inbox_waiting ON inbox (thread, sort, seq) WHERE state = 'waiting';
CREATE INDEX inbox_taken ON inbox (turn) WHERE state = 'taken';
CREATE INDEX inbox_message ON inbox (thread, message, kind);
CREATE INDEX inbox_ended ON inbox (ended_at, ending, thread) WHERE state = 'ended';
CREATE TABLE turns (
  turn TEXT PRIMARY KEY, thread TEXT NOT NULL REFERENCES threads,
  state TEXT NOT NULL CHECK (state IN ('running','parked','done','failed','stopped')),
  person TEXT NOT NULL,
  starts INTEGER NOT NULL DEFAULT 1, attempts INTEGER NOT NULL DEFAULT 0, began BIGINT NOT NULL,
  ended BIGINT, reason TEXT) /*without rowid*/;
CREATE UNIQUE INDEX turns_open ON turns (thread) WHERE state IN ('running','parked');
CREATE INDEX turns_ended ON turns (ended) WHERE ended IS NOT NULL;
CREATE TABLE steps (
  thread TEXT NOT NULL REFERENCES threads, seq BIGINT NOT NULL, turn TEXT NOT NULL,
  kind TEXT NOT NULL
    CHECK (kind IN ('session','user','model','started','result','compaction','notice')),
  call TEXT, body TEXT NOT NULL,
  at BIGINT NOT NULL, PRIMARY KEY (thread, seq));
CREATE UNIQUE INDEX steps_once ON steps (thread, call, kind) WHERE call IS NOT NULL;
CREATE TABLE outbox (
  id TEXT PRIMARY KEY, thread TEXT NOT NULL REFERENCES threads, seq BIGINT NOT NULL,
  channel TEXT NOT NULL, account TEXT NOT NULL, turn TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('draft','message','edit','notice')),
  target TEXT REFERENCES outbox, body TEXT NOT NULL, parts TEXT,
  state TEXT NOT NULL CHECK (state IN ('ready','sending','sent','dropped','dead')),
  attempts INTEGER NOT NULL DEFAULT 0,
  at BIGINT NOT NULL, ready_at BIGINT NOT NULL, expires BIGINT NOT NULL, ttl BIGINT NOT NULL,
  ended_at BIGINT, error TEXT, UNIQUE (thread, seq));
CREATE INDEX outbox_open ON outbox (channel, account, thread,
seq) WHERE state IN ('ready','sending');
CREATE INDEX outbox_ended ON outbox (ended_at, channel, state) WHERE ended_at IS NOT NULL;
CREATE INDEX outbox_draft ON outbox (turn) WHERE kind = 'draft';
CREATE INDEX outbox_target ON outbox (target) WHERE target IS NOT NULL;
CREATE TABLE approvals (
  id TEXT PRIMARY KEY, thread TEXT NOT NULL REFERENCES threads, seq BIGINT NOT NULL,
  turn TEXT NOT NULL, call TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('permission','question')), body TEXT NOT NULL,
  hash TEXT NOT NULL, cwd TEXT NOT NULL,
  timeout BIGINT NOT NULL, asked_at BIGINT, deadline BIGINT,
  state TEXT NOT NULL CHECK (state IN ('queued','asked','allowed','denied','expired','void')),
  scope TEXT, word TEXT, person TEXT, answered_at BIGINT, used_at BIGINT);
CREATE INDEX approvals_call ON approvals (turn, call);
CREATE UNIQUE INDEX approvals_open ON approvals (thread, turn,
call) WHERE state IN ('queued','asked');
CREATE UNIQUE INDEX approvals_one ON approvals (thread) WHERE state = 'asked';
CREATE INDEX approvals_due ON approvals (deadline) WHERE state = 'asked';
CREATE TABLE grants (
  id TEXT PRIMARY KEY, scope TEXT NOT NULL, rule TEXT NOT NULL, person TEXT NOT NULL,
  at BIGINT NOT NULL, revoked_at BIGINT);
CREATE TABLE people (
  channel TEXT NOT NULL, account TEXT NOT NULL, person TEXT NOT NULL, name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('asking','guest','user','admin','owner','revoked')),
  code_hash TEXT, expires BIGINT, by TEXT,
  at BIGINT NOT NULL, PRIMARY KEY (channel, account, person));
CREATE TABLE jobs (
  job TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE,
  origin TEXT NOT NULL CHECK (origin IN ('config','person')), body TEXT NOT NULL,
  revision BIGINT NOT NULL, enabled INTEGER NOT NULL, next_at BIGINT, person TEXT NOT NULL);
CREATE INDEX jobs_next ON jobs (next_at) WHERE enabled = 1 AND next_at IS NOT NULL;
CREATE TABLE occurrences (
  job TEXT NOT NULL, due BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('claimed','done','failed','skipped','missed')),
  reason TEXT, turn TEXT, at BIGINT NOT NULL, PRIMARY KEY (job, due));
CREATE TABLE leases (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until BIGINT NOT NULL,
generation BIGINT NOT NULL);
CREATE TABLE cursors (
  channel TEXT NOT NULL, account TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
  generation BIGINT NOT NULL,
  PRIMARY KEY (channel, account, name)) /*without rowid*/;
CREATE TABLE usage (
  id TEXT PRIMARY KEY, at BIGINT NOT NULL, day TEXT NOT NULL, thread TEXT, turn TEXT, person TEXT,
  job TEXT, model TEXT NOT NULL,
  purpose TEXT NOT NULL, input BIGINT NOT NULL, cached BIGINT NOT NULL, written BIGINT NOT NULL,
  output BIGINT NOT NULL, micro_usd BIGINT NOT NULL)
  /*without rowid*/;
CREATE INDEX usage_day ON usage (day, person);
CREATE TABLE audit (
  writer TEXT NOT NULL, n BIGINT NOT NULL, at BIGINT NOT NULL, kind TEXT NOT NULL,
  body TEXT NOT NULL, hash TEXT NOT NULL,
  PRIMARY KEY (writer, n));
"""

# Cron: where an occurrence runs and how it ended.
_SECOND = """
ALTER TABLE occurrences ADD COLUMN thread TEXT;
ALTER TABLE occurrences ADD COLUMN seq BIGINT;
ALTER TABLE occurrences ADD COLUMN started BIGINT;
ALTER TABLE occurrences ADD COLUMN ended BIGINT;
ALTER TABLE occurrences ADD COLUMN preview TEXT;
ALTER TABLE occurrences ADD COLUMN digest TEXT;
ALTER TABLE occurrences ADD COLUMN attempts INTEGER NOT NULL DEFAULT 1;
CREATE INDEX occurrences_claimed ON occurrences (thread) WHERE state = 'claimed';
CREATE INDEX occurrences_ended ON occurrences (at) WHERE state <> 'claimed'
"""

# Fewer trees to write for every message. What is open is what has not ended: taking an arrival or a
# post changes no index, and what is pruned is walked in the order of its key instead of being kept
# in order of time as well.
_THIRD = """
DROP INDEX inbox_waiting;
DROP INDEX inbox_taken;
CREATE INDEX inbox_open ON inbox (thread, sort, seq) WHERE ended_at IS NULL;
DROP INDEX outbox_open;
CREATE INDEX outbox_open ON outbox (channel, account, thread, seq) WHERE ended_at IS NULL;
DROP INDEX seen_at;
DROP INDEX turns_ended;
CREATE TABLE spent (
  id TEXT NOT NULL, at BIGINT NOT NULL, day TEXT NOT NULL, thread TEXT, turn TEXT, person TEXT,
  job TEXT, model TEXT NOT NULL,
  purpose TEXT NOT NULL, input BIGINT NOT NULL, cached BIGINT NOT NULL, written BIGINT NOT NULL,
  output BIGINT NOT NULL,
  micro_usd BIGINT NOT NULL, PRIMARY KEY (day, id)) /*without rowid*/;
INSERT INTO spent (id, at, day, thread, turn, person, job, model, purpose, input, cached, written,
output, micro_usd)
  SELECT id, at, day, thread, turn, person, job, model, purpose, input, cached, written, output,
  micro_usd FROM usage;
DROP TABLE usage;
ALTER TABLE spent RENAME TO usage
"""

# Nobody knows what some models cost: such a call has no price instead of 0. Calls without tokens
# are those of the house itself, which are free.
_FOURTH = """
CREATE TABLE booked (
  id TEXT NOT NULL, at BIGINT NOT NULL, day TEXT NOT NULL, thread TEXT, turn TEXT, person TEXT,
  job TEXT, model TEXT NOT NULL,
  purpose TEXT NOT NULL, input BIGINT NOT NULL, cached BIGINT NOT NULL, written BIGINT NOT NULL,
  output BIGINT NOT NULL,
  micro_usd BIGINT, PRIMARY KEY (day, id)) /*without rowid*/;
INSERT INTO booked (id, at, day, thread, turn, person, job, model, purpose, input, cached, written,
output, micro_usd)
  SELECT id, at, day, thread, turn, person, job, model, purpose, input, cached, written, output,
  CASE WHEN micro_usd = 0 AND input + cached + written + output > 0 THEN NULL ELSE micro_usd END
  FROM usage;
DROP TABLE usage;
ALTER TABLE booked RENAME TO usage
"""

# Why a turn ended and why a slot of a job is as it is stands in its row: what sentences said until
# now is read here for the last time. ``begun_under``: policy and role of a turn that is open.
_FIFTH = """
ALTER TABLE turns ADD COLUMN cause TEXT;
ALTER TABLE turns ADD COLUMN begun_under TEXT;
ALTER TABLE occurrences ADD COLUMN cause TEXT;
UPDATE occurrences SET cause = CASE
  WHEN reason = 'caught up' THEN 'caught_up'
  WHEN reason = 'run by hand' THEN 'by_hand'
  WHEN reason = 'the job was removed' THEN 'removed'
  WHEN reason = 'interrupted by a newer message' THEN 'interrupted'
  WHEN state = 'failed' AND reason LIKE 'stopped by %' THEN 'stopped'
  WHEN state = 'skipped' AND reason LIKE 'coalesced into %' THEN 'coalesced'
  WHEN state = 'skipped' AND reason LIKE 'the run of % had not ended' THEN 'overlap'
  WHEN state = 'skipped' AND reason LIKE '% runs wait or run already' THEN 'queue_full'
  WHEN state = 'missed' AND reason LIKE 'ohmo was not running% it came %' THEN 'too_late'
  WHEN state = 'missed' AND reason LIKE 'ohmo was not running%' THEN 'not_running'
  WHEN state = 'missed' AND reason LIKE 'more than % runs were missed%' THEN 'too_many'
  END
"""

# With which number a conversation begins, and what people are called. ``begins`` NULL: not looked
# up yet (an older ohmo wrote it, or its beginning went, ohmo/store/known_people.py); 0: nothing was
# said.
_SIXTH = """
ALTER TABLE threads ADD COLUMN begins BIGINT;
CREATE INDEX threads_unread ON threads (thread) WHERE begins IS NULL;
CREATE TABLE speakers (
  channel TEXT NOT NULL, account TEXT NOT NULL, person TEXT NOT NULL, name TEXT NOT NULL,
  day BIGINT NOT NULL, PRIMARY KEY (channel, account, person)) /*without rowid*/
"""

# What was spent, by whose budget it counts against; and what was kept of folders before a turn
# changed them. ``day`` is '' where a total does not begin anew each day.
_SEVENTH = """
CREATE TABLE spending (
  scope TEXT NOT NULL CHECK (scope IN ('turn','thread','person','job','day')), name TEXT NOT NULL,
  day TEXT NOT NULL, tokens BIGINT NOT NULL, micro_usd BIGINT NOT NULL,
  PRIMARY KEY (scope, name, day)) /*without rowid*/;
INSERT INTO spending SELECT 'thread', thread, '', SUM(input + cached + written + output),
  COALESCE(SUM(micro_usd), 0) FROM usage WHERE thread IS NOT NULL GROUP BY thread;
INSERT INTO spending SELECT 'person', t.channel || ':' || u.person, u.day,
  SUM(u.input + u.cached + u.written + u.output), COALESCE(SUM(u.micro_usd), 0)
  FROM usage u JOIN threads t ON t.thread = u.thread WHERE u.person IS NOT NULL
  GROUP BY t.channel, u.person, u.day;
INSERT INTO spending SELECT 'day', '', day, SUM(input + cached + written + output),
  COALESCE(SUM(micro_usd), 0) FROM usage GROUP BY day;
CREATE TABLE checkpoints (
  id TEXT PRIMARY KEY, thread TEXT NOT NULL REFERENCES threads, turn TEXT NOT NULL,
  repo TEXT NOT NULL, tree TEXT NOT NULL, bytes BIGINT NOT NULL, at BIGINT NOT NULL,
  gone_at BIGINT);
CREATE INDEX checkpoints_thread ON checkpoints (thread, at) WHERE gone_at IS NULL
"""

# What people allowed to take part, by its content (ohmo/contracts/trust.py).
_EIGHTH = """
CREATE TABLE trusts (
  kind TEXT NOT NULL
    CHECK (kind IN ('project','plugin','skill','hook','mcp','package','agent')),
  name TEXT NOT NULL, digest TEXT NOT NULL, person TEXT NOT NULL, at BIGINT NOT NULL,
  revoked_at BIGINT, PRIMARY KEY (kind, name, digest))
"""

# Parents before children, so that references hold at every moment of a copy.
TABLES = (
    "threads",
    "seen",
    "inbox",
    "turns",
    "steps",
    "outbox",
    "approvals",
    "grants",
    "people",
    "jobs",
    "occurrences",
    "leases",
    "cursors",
    "usage",
    "audit",
    "speakers",
    "spending",
    "checkpoints",
    "trusts",
)


def statements_of(text: str) -> tuple[str, ...]:
    """The single statements of a migration; the schema has no semicolon inside one."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


_FORMS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, _EIGHTH)
MIGRATIONS: Mapping[int, tuple[str, ...]] = {
    number: statements_of(text) for number, text in enumerate(_FORMS, start=1)
}
META = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"


def sqlite_statement(sql: str) -> str:
    """Tables whose key is the row need no second tree in SQLite."""
    return sql.replace("/*without rowid*/", "WITHOUT ROWID")


class NewerSchema(StoreError):
    """The store was written by a newer ohmo."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        self.reason = (
            f"the store has schema {found}, this ohmo knows {known}: start the newer ohmo, or"
            " restore a backup"
        )
        super().__init__(f"{self.reason}; nothing was changed")


def newest(migrations: Mapping[int, Sequence[str]]) -> int:
    return max(migrations, default=0)


def version() -> Op[int]:
    """Of a store whose ``meta`` exists; 0 when nothing was migrated yet."""
    rows = yield "SELECT value FROM meta WHERE name = ?", ("schema",)
    return int(rows[0][0]) if rows else 0


def migrate(failpoint: Failpoint, migrations: Mapping[int, Sequence[str]] = MIGRATIONS) -> Op[int]:
    """Bring an older store forward, number by number, inside the transaction of the caller. Returns
    the version; raises NewerSchema."""
    yield META, ()
    present = yield from version()
    if present > newest(migrations):
        raise NewerSchema(present, newest(migrations))
    for number in sorted(n for n in migrations if n > present):
        for statement in migrations[number]:
            failpoint("migrate.step")
            yield statement, ()
        failpoint("migrate.step")
        yield (
            """INSERT INTO meta (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO UPDATE
            SET value = excluded.value""",
            (str(number),),
        )
    return newest(migrations)
