"""How long a sound connection may be quiet: without that figure a half-open line would be called
connected for ever."""

from __future__ import annotations

from datetime import timedelta

from channels.discord import adapter as discord
from channels.discord.client_line import Pace as DiscordPace
from channels.feishu import adapter as feishu
from channels.feishu.client import Pace as FeishuPace

HEARTBEAT = timedelta(seconds=41.25)  # Gateway, "Hello Event": the interval Discord hands out


def test_discord_is_quiet_for_a_heartbeat_and_a_mute_line_is_dropped_before_it_is_doubted() -> None:
    silence = discord.CAPABILITIES.silence
    assert silence is not None
    assert silence > HEARTBEAT
    assert timedelta(seconds=DiscordPace().mute) < 2 * silence


def test_feishu_is_quiet_for_a_ping_and_a_mute_line_is_dropped_before_it_is_doubted() -> None:
    silence = feishu.CAPABILITIES.silence
    assert silence is not None
    assert silence > timedelta(seconds=FeishuPace().ping)
    assert timedelta(seconds=2 * FeishuPace().ping) < 2 * silence
