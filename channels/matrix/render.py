"""Outbound messages into Matrix events, frozen as JSON. Pure.

Source: Matrix Client-Server API, "m.room.message msgtypes" (allowed HTML), "Event replacements",
"Threading", "User and room mentions", "Size limits" (65 536 bytes for a whole event)."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, cast

from channels.contract import Choice, MessageId, Outbound, Part
from channels.matrix.inbound import AUTOMATED
from channels.payloads import Body, clean
from channels.split import between_characters, split_markdown
from channels.text import around, disclosed, is_link, parse, plain, quote_thinking, words_of

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


# Bytes of one content. Encrypted it grows by a third (base64) and an envelope; the homeserver adds
# signatures, hashes and references, up to 65 536.
LARGEST = 46_000
MAX_TEXT = 8_000  # characters of one message; nobody wants to read longer ones
MARK = "(may be a duplicate)"
MESSAGE = "m.room.message"
# clients show a person or a room in place of the words
_PILLS = re.compile(r"https?://matrix\.to/", re.IGNORECASE)
_MARKUP = re.compile(r"[*_`~|\[]")
_QUOTES = re.compile(r"^[ \t>]*>", re.MULTILINE)
_CONTROLS = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")  # invisible, and six bytes each in JSON
_WRAPPED = {
    "strong": "strong",
    "em": "em",
    "s": "del",
    "paragraph": "p",
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "list_item": "li",
}
_TABLE = {"table": "table", "thead": "thead", "tbody": "tbody", "tr": "tr", "th": "th", "td": "td"}


def render(outbound: Outbound) -> tuple[Part, ...]:
    """Edits of what is replaced, posts of the rest, deletions of the surplus, then the files."""
    room = outbound.address.chat
    old = [receipt.message for receipt in outbound.replaces]
    contents = _contents(outbound)
    parts = [_edit(room, target, content) for target, content in zip(old, contents, strict=False)]
    parts += [Part("post", _payload(room, content)) for content in contents[len(old) :]]
    parts += [Part("delete", json.dumps({"room": room}), target) for target in old[len(contents) :]]
    for path in outbound.files:
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        name = clean(path.name)
        kind = media_type.partition("/")[0]
        content: Body = {
            "msgtype": f"m.{kind}" if kind in {"image", "audio", "video"} else "m.file",
            "body": name,
            "filename": name,
            "info": {"mimetype": media_type},
            "m.mentions": {},
            AUTOMATED: True,
        }
        relation = _relation(outbound, first=not outbound.text)
        if relation:
            content["m.relates_to"] = relation
        payload = {"room": room, "type": MESSAGE, "content": content, "path": str(path)}
        parts.append(Part("file", json.dumps(payload)))
    return tuple(parts)


def revision(room: str, target: MessageId, text: str) -> Part:
    """A newer text of a draft: what does not fit into one event is left out."""
    source = quote_thinking(_CONTROLS.sub("", clean(text)))
    pieces = split_markdown(source, _fits) or ["…"]
    shown = pieces[0] if len(pieces) == 1 else f"{pieces[0]}\n\n…"
    return _edit(room, target, _content(shown, ()))


def mark(part: Part) -> Part:
    """The same part, visibly a possible duplicate; a deletion shows nothing and stays as it is."""
    payload = load(part)
    content = payload.get("content")
    if not isinstance(content, dict):
        return part
    marked = _marked(cast("Body", content))
    return replace(part, payload=json.dumps({**payload, "content": marked}))


def load(part: Part) -> Body:
    return cast("Body", json.loads(part.payload))


def with_file(content: Body, uploaded: Body) -> Body:
    """The content of a file part, once its bytes are on the homeserver: ``uploaded`` has their
    size, and their address (``mxc``) or, scrambled, their ``file`` with its key."""
    where = {"file": uploaded["file"]} if "file" in uploaded else {"url": uploaded["mxc"]}
    return {**content, **where, "info": {**content.get("info", {}), "size": uploaded["size"]}}


def moved(part: Part, room: str) -> Part:
    """The same message for a room that replaced its own, where none of the messages it refers to
    exist."""
    payload = load(part)
    content = {key: value for key, value in payload["content"].items() if key != "m.relates_to"}
    return replace(part, payload=json.dumps({**payload, "room": room, "content": content}))


def _contents(outbound: Outbound) -> list[Body]:
    text = _CONTROLS.sub("", clean(outbound.text))
    if outbound.plain:
        # Without markup it is cut at a line or a space where there is one.
        rest = _with_choices(text, outbound.choices)
        pieces: list[str] = []
        most = LARGEST // 8  # four bytes a character, held twice by an edit; less than MAX_TEXT
        while len(rest) > most:
            line = rest.rfind("\n", most // 2, most)
            word = rest.rfind(" ", most // 2, most)
            at = max(line, word) + 1 or between_characters(rest, 0, most)
            pieces.append(rest[:at].rstrip())
            rest = rest[at:]
        contents = [_plain_content(piece) for piece in [*pieces, rest] if piece.strip()]
    else:
        source = _with_choices(quote_thinking(text), outbound.choices)
        contents = [_content(piece, outbound.mentions) for piece in split_markdown(source, _fits)]
    if not contents and not outbound.files:
        # An event without words is no message; a reader must see that there was one.
        contents = [_plain_content("…")]
    # Of a draft the answer that takes its place rings.
    if contents and outbound.mentions and not outbound.draft:
        contents[0]["m.mentions"] = {"user_ids": list(outbound.mentions)}
    for number, content in enumerate(contents):
        relation = _relation(outbound, first=number == 0)
        if relation:
            content["m.relates_to"] = relation
    return contents


def _content(source: str, mentions: Sequence[str]) -> Body:
    """An empty ``m.mentions`` keeps an @room in the text from ringing everybody. The ids of people
    who are really mentioned become links their clients show as pills."""
    html = to_html(source)
    for person in map(escape, mentions):
        html = html.replace(person, f'<a href="https://matrix.to/#/{person}">{person}</a>')
    return {
        "msgtype": "m.text",
        "body": plain(source),
        "format": "org.matrix.custom.html",
        "formatted_body": html,
        "m.mentions": {},
        AUTOMATED: True,
    }


def _plain_content(text: str) -> Body:
    return {"msgtype": "m.text", "body": text, "m.mentions": {}, AUTOMATED: True}


def _relation(outbound: Outbound, *, first: bool) -> Body:
    reply = outbound.reply_to if first else None
    if outbound.address.topic is None:
        if reply is not None:
            return {"m.in_reply_to": {"event_id": reply}}
        return {}
    return {
        "rel_type": "m.thread",
        "event_id": outbound.address.topic,
        "is_falling_back": reply is None,
        "m.in_reply_to": {"event_id": reply or outbound.address.topic},
    }


def _edit(room: str, target: MessageId, content: Body) -> Part:
    """Mentions of an edit ring again only outside of ``m.new_content``; an answer that replaces its
    draft should."""
    new = {key: value for key, value in content.items() if key != "m.relates_to"}
    outer = {
        "msgtype": "m.text",
        "body": f"* {content['body']}",
        "m.mentions": content["m.mentions"],
        "m.new_content": new,
    }
    outer |= {AUTOMATED: True, "m.relates_to": {"rel_type": "m.replace", "event_id": target}}
    return Part("edit", _payload(room, outer), target)


def _payload(room: str, content: Body) -> str:
    return json.dumps({"room": room, "type": MESSAGE, "content": content})


def _fits(source: str) -> bool:
    """Whether an edit, which holds the words twice beside the HTML, stays small enough. An estimate
    from above, because parsing at every question would cost seconds; what passes it all the same is
    refused by the homeserver and said plainly."""
    if len(source) > MAX_TEXT:
        return False
    words = len(json.dumps(source, ensure_ascii=False).encode())
    markup = (
        12 * source.count("\n")
        + 9 * len(_MARKUP.findall(source))
        + 25 * len(_QUOTES.findall(source))
    )
    return 2 * words + len(escape(source).encode()) + markup <= LARGEST


def _with_choices(text: str, choices: Sequence[Choice]) -> str:
    """Matrix has no buttons: the choices stand below as words to answer with."""
    labels = " · ".join(clean(choice.label) for choice in choices)
    if choices:
        return f"{text}\n\nAnswer with one of: {labels}"
    return text


def _marked(content: Body) -> Body:
    marked = {**content, "body": f"{content['body']} {MARK}"}
    if "formatted_body" in content:
        marked["formatted_body"] = f"{content['formatted_body']}<p>{MARK}</p>"
    if isinstance(content.get("m.new_content"), dict):
        marked["m.new_content"] = _marked(content["m.new_content"])
    return marked


def to_html(source: str) -> str:
    """CommonMark as the HTML every client allows; raw HTML is text, and addresses of foreign
    schemes are no links."""
    return "\n".join(_html(child) for child in parse(source).children)


def _html(node: SyntaxTreeNode) -> str:
    match node.type:
        case "text" | "html_inline":
            return escape(node.content, quote=False)
        case "html_block":
            lines = escape(node.content.strip(), quote=False).split("\n")
            return f"<p>{'<br>'.join(lines)}</p>"
        case "softbreak" | "hardbreak":
            return "<br>"
        case "hr":
            return "<hr>"
        case "code_inline":
            return f"<code>{escape(node.content, quote=False)}</code>"
        case "fence" | "code_block":
            language = re.sub(r"[^\w+#.-]", "", node.info.split()[0]) if node.info.strip() else ""
            attribute = ""
            if language:
                attribute = f' class="language-{language}"'
            return f"<pre><code{attribute}>{escape(node.content, quote=False)}</code></pre>"
        case "heading":
            return f"<{node.tag}>{_inner(node)}</{node.tag}>"
        case "ordered_list":
            start = node.attrs.get("start", 1)
            attribute = f' start="{int(start)}"' if start != 1 else ""
            return f"<ol{attribute}>{_inner(node)}</ol>"
        case "link":
            address = str(node.attrs.get("href", ""))
            return _link(address, _inner(node), node)
        case "image":
            source = str(node.attrs.get("src", ""))
            return _link(source, escape(node.content or source, quote=False), node)
        case "paragraph" if node.hidden:
            return _inner(node)
        case kind if tag := _WRAPPED.get(kind) or _TABLE.get(kind):
            return f"<{tag}>{_inner(node)}</{tag}>"
        case _:
            return _inner(node)


def _inner(node: SyntaxTreeNode) -> str:
    return "".join(_html(child) for child in node.children)


def _link(address: str, words: str, node: SyntaxTreeNode) -> str:
    if not is_link(address) or _PILLS.match(address):
        return words
    beside = escape(disclosed(words_of(node), address, around(node)))
    return f'<a href="{escape(address)}">{words}</a>{beside}'
