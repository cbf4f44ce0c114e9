"""Several works, one failure."""

from __future__ import annotations

import asyncio

import pytest

from channels.errors import AuthFailed, NotReady, Rejected, finish_all, main_error


def test_of_several_failures_the_kind_that_is_asked_for_first_is_told_however_deep_it_lies() -> (
    None
):
    refused, gone, later = AuthFailed("refused"), NotReady("gone"), NotReady("later")
    group = BaseExceptionGroup(
        "", [BaseExceptionGroup("", [gone, BaseExceptionGroup("", [refused])]), later]
    )
    assert main_error(group, AuthFailed, NotReady) is refused
    assert main_error(group, NotReady, AuthFailed) is gone
    assert main_error(group, Rejected) is gone, "of none of the kinds: the first"


async def test_a_work_that_fails_cuts_off_no_other() -> None:
    done, go_on = list[str](), asyncio.Event()

    async def fails() -> None:
        go_on.set()
        raise NotReady("gone")

    async def works() -> None:
        await go_on.wait()
        await asyncio.sleep(0)
        done.append("work")

    with pytest.raises(NotReady, match="gone"):
        await finish_all([fails(), works()])
    assert done == ["work"]
