"""Connected means: heard within the platform's interval, and known to the platform within ten
minutes (mission, section M, 10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ohmo.gateway.connections import DEAF, PROOF, Health

T0 = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SILENCE = timedelta(seconds=30)


def met(*, silence: timedelta | None = SILENCE, probed: bool = False) -> Health:
    health = Health()
    health.connected(T0, account="bot", silence=silence, probed=probed)
    return health


def test_a_socket_that_is_open_and_mute_is_not_called_connected() -> None:
    health = met()
    assert health.report(T0 + 2 * SILENCE).state == "connected"
    late = health.report(T0 + 2 * SILENCE + timedelta(seconds=1))
    assert (late.state, late.detail.split(",")[0]) == ("reconnecting", "nothing was heard for 61 s")
    health.heard(T0 + timedelta(seconds=70))
    again = health.report(T0 + timedelta(seconds=71))
    assert (again.state, again.detail) == ("connected", "")


def test_a_clock_that_is_set_is_no_silence_and_hides_none() -> None:
    ahead, back = timedelta(hours=2), -timedelta(hours=2)
    health = met(probed=True)
    assert health.report(T0 + ahead).state == "reconnecting"  # as if two hours had gone by
    assert health.report(T0 + ahead, lambda _: ahead).state == "connected"
    assert health.report(T0 + ahead + 3 * SILENCE, lambda _: ahead).state == "reconnecting"
    health = met()
    assert health.report(T0 + back).state == "connected"
    # a mute one is not believed for two hours
    assert health.report(T0 + back + 3 * SILENCE).state == "reconnecting"


def test_a_platform_that_greets_is_not_called_connected_before_it_did_also_when_it_takes_what_we_say() -> (
    None
):
    health = Health()
    health.connected(T0, account="bot", silence=SILENCE, probed=True, greets=True)
    health.delivered(T0 + timedelta(seconds=1))
    early = health.report(T0 + timedelta(seconds=2))
    assert (early.state, early.detail) == ("starting", DEAF)
    health.heard(T0 + timedelta(seconds=3))
    assert health.report(T0 + timedelta(seconds=3)).state == "connected"
    health.connected(
        T0 + timedelta(seconds=60), account="bot", silence=SILENCE, probed=True, greets=True
    )
    assert health.report(T0 + timedelta(seconds=61)).state == "reconnecting"


def test_heartbeats_alone_do_not_prove_credentials_where_they_are_not_asked_for() -> None:
    health = met(probed=True)
    now = T0 + PROOF + timedelta(seconds=1)
    health.heard(now)
    assert health.report(now).state == "reconnecting"
    assert "no call with our credentials succeeded for 10 minutes" in health.report(now).detail
    health.delivered(now)
    found = health.report(now)
    assert (found.state, found.last_call, found.last_delivery) == ("connected", now, now)


def test_where_whatever_is_heard_answers_a_call_hearing_proves() -> None:
    health = met()
    now = T0 + timedelta(hours=3)
    health.heard(now)
    assert (health.report(now).state, health.report(now).last_call) == ("connected", now)


def test_a_channel_that_may_be_quiet_for_ever_is_believed() -> None:
    assert met(silence=None).report(T0 + timedelta(days=3)).state == "connected"


def test_what_the_channel_says_itself_is_not_overruled() -> None:
    health = met()
    health.state, health.detail = "auth_failed", "the token was revoked"
    found = health.report(T0 + timedelta(days=1))
    assert (found.state, found.detail) == ("auth_failed", "the token was revoked")
