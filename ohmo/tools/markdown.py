"""HTML to Markdown: the readable part of a page, links made whole. Its imports are heavy: it runs
as a process of its own."""

from __future__ import annotations

import json
import re
import sys
from urllib.parse import urljoin

from ohmo.tools.isolated import bounded

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# markdownify carries no types.


_DROPPED = (
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "embed",
    "form",
    "button",
    "input",
    "canvas",
    "audio",
    "video",
)
_AROUND = ("nav", "footer", "aside")
# Characters; short links below a long address become a hundred times as long.
_MOST = 4 * 1024 * 1024


def to_markdown(html: str, url: str) -> str:
    """Main text of the page with its title on top. Very deep pages come back as plain text."""
    # not by whoever looks through this folder for tools
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup(_DROPPED):
        tag.decompose()
    for tag in soup.find_all(
        style=re.compile(r"display:\s*none|visibility:\s*hidden")
    ) + soup.find_all(hidden=True):
        tag.decompose()
    body = soup.find("main") or soup.find("article") or soup.body or soup
    if len(body.get_text(strip=True)) < 200:
        body = soup.body or soup
    for tag in body(_AROUND):
        tag.decompose()
    for link in body.find_all("a", href=True):
        link["href"] = urljoin(url, str(link["href"]))
    for image in body.find_all("img"):
        image.replace_with(f"[image: {image.get('alt')}]" if image.get("alt") else "")
    try:
        text = MarkdownConverter(
            heading_style="ATX", bullets="-", escape_underscores=False, escape_asterisks=False
        ).convert_soup(body)
    except RecursionError:  # thousands of tags inside each other
        text = body.get_text("\n", strip=True)
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return f"# {title}\n\n{text}" if title and not text.startswith(f"# {title}") else text


def main() -> None:
    """A process of its own: on stdin the URL, a line end, and the page."""
    url, _, html = sys.stdin.buffer.read().decode("utf-8", "replace").partition("\n")
    bounded(json.loads(url)["seconds"])
    text = to_markdown(html, json.loads(url)["url"])
    rest = f"\n[{len(text) - _MOST} more characters left out]" if len(text) > _MOST else ""
    sys.stdout.buffer.write((text[:_MOST] + rest).encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
