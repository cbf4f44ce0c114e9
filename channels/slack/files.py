"""Files on Slack: brought there, shown, found again, fetched (Working with files)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from channels.contract import Attachment, MessageId, Receipt
from channels.errors import Rejected
from channels.payloads import Body
from channels.platform_calls import downloaded, plain_name
from channels.slack.client import Refused, Wire, need

LARGEST = 100 << 20  # bytes of one file that are fetched; Slack itself takes ten times as many
# What Slack answers about something that is not there any more.
GONE = frozenset({"message_not_found", "file_not_found", "file_deleted", "channel_not_found"})


class Files:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def upload(self, path: Path) -> str:
        """The first two steps of "Uploading files"; nobody sees the file before the third. Its id.
        Raises ChannelError."""
        try:
            size = path.stat().st_size  # noqa: ASYNC240 - one stat of a local file
        except OSError as error:
            raise Rejected(f"Slack: {path} cannot be read: {error.strerror}") from error
        place = await self._wire.read("files.getUploadURLExternal", filename=path.name, length=size)
        await self._wire.put(need("files.getUploadURLExternal", place, "upload_url"), path)
        return need("files.getUploadURLExternal", place, "file_id")

    async def show(self, body: Body, handle: str | None) -> Receipt:
        """files.completeUploadExternal, the third step. The share's ts comes later and by events
        only: the receipt is the file's id. Raises ChannelError."""
        if not handle:
            raise Rejected("Slack: a file is shown by the handle of its upload, and there is none")
        file = {"id": handle, "title": body["title"]}
        call: Body = {"files": [file], "channel_id": body["channel"]}
        if body.get("thread_ts"):
            call["thread_ts"] = body["thread_ts"]
        await self._wire.write("files.completeUploadExternal", call, once=True)
        return Receipt(MessageId(handle))

    async def find(self, handle: str | None, chat: str) -> Receipt | None:
        """files.info: ``shares`` names every conversation a file was shown in; an upload that was
        never completed is unknown. Raises ChannelError."""
        if not handle:
            return None
        try:
            found = await self._info(handle)
        except Refused as refused:
            if refused.word in GONE:
                return None
            raise
        shares = cast("dict[str, dict[str, Any]]", found.get("shares") or {})
        shown = {place for kind in shares.values() for place in kind}
        for kind in ("ims", "channels", "groups"):
            shown |= set(found.get(kind) or ())
        return Receipt(MessageId(handle)) if chat in shown else None

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        """Raises ChannelError."""
        file, _, url = attachment.ref.partition(" ")

        async def download(path: Path, most: int) -> None:
            media = await self._wire.get(url or await self._address(file), path, most)
            if media == "text/html" and attachment.media_type != "text/html":
                raise Rejected(
                    "Slack: a sign-in page came instead of the file: give the app the scope"
                    " files:read and install it again"
                )

        path = into / f"{file}-{plain_name(attachment)}"
        return await downloaded("Slack", attachment, path, min(limit, LARGEST), download)

    async def _address(self, file: str) -> str:
        """Files of other workspaces come without address (Slack Connect, "check_file_info")."""
        found = await self._info(file)
        return str(found.get("url_private_download") or found.get("url_private") or "")

    async def _info(self, file: str) -> Body:
        return cast("Body", (await self._wire.read("files.info", file=file)).get("file") or {})
