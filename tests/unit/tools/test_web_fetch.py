"""WebFetch reaches the public web and nothing else, however the address is dressed up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from aiohttp import web
from tool_calls import Call

from ohmo.contracts.tool import CallContext
from ohmo.tools.catalogue import load_tools
from ohmo.tools.markdown import to_markdown
from ohmo.tools.results import ToolError
from ohmo.tools.web_addresses import is_public
from ohmo.tools.webfetch import Fetcher, url_host
from ohmo.tools.workbench import Limits, Workbench

REFUSED = """
http://127.0.0.1/
http://127.0.0.1:8080/x
http://127.1/
http://127.0.1/
http://127.255.255.254/
http://0/
http://0.0.0.0/
http://0.0.0.0:80/
http://2130706433/
http://4294967295/
http://0x7f000001/
http://0x7f.0x0.0x0.0x1/
http://0x7f.1/
http://0177.0.0.1/
http://017700000001/
http://0177.0.0.01/
http://127.0.0.0x1/
http://127.0.0.1./
http://10.0.0.1/
http://10.255.255.255/
http://172.16.0.1/
http://172.31.255.255/
http://192.168.0.1/
http://192.168.1.254:443/
http://169.254.169.254/latest/meta-data/
http://169.254.170.2/
http://[fd00:ec2::254]/
http://100.64.0.1/
http://100.100.100.200/
http://192.0.0.1/
http://192.0.2.1/
http://198.18.0.1/
http://198.51.100.1/
http://203.0.113.1/
http://224.0.0.1/
http://239.255.255.250/
http://240.0.0.1/
http://255.255.255.255/
http://[::1]/
http://[::]/
http://[0:0:0:0:0:0:0:1]/
http://[::ffff:127.0.0.1]/
http://[::ffff:7f00:1]/
http://[::ffff:169.254.169.254]/
http://[::ffff:8.8.8.8]/
http://[::127.0.0.1]/
http://[::ffff:0:127.0.0.1]/
http://[64:ff9b::7f00:1]/
http://[64:ff9b::a9fe:a9fe]/
http://[64:ff9b:1::a00:1]/
http://[2002:7f00:1::]/
http://[2002:a9fe:a9fe::1]/
http://[2001:0:7f00:1::]/
http://[2001::80ff:fffe]/
http://[fe80::1]/
http://[fe80::1%25eth0]/
http://[fec0::1]/
http://[fc00::1]/
http://[fd12:3456::1]/
http://[ff02::1]/
http://[2001:db8::1]/
http://[100::1]/
http://[2a00:1450::5efe:7f00:1]/
http://[2002:808:808::1]/
http://[64:ff9b:1::808:808]/
http://168.63.129.16/metadata
http://[64:ff9b::a83f:8110]/
http://161.26.0.10/
http://166.8.0.1/
http://192.0.0.192/opc/v2/
http://[5f00::1]/
http://[4000::1]/
http://[3fff::1]/
http://metadata.goog/
http://kubernetes.default.svc/
http://router.home.arpa./
http://example.org../
http://localhost/
http://LOCALHOST/
http://localhost./
http://localhost.localdomain/
http://a.localhost/
http://printer.local/
http://metadata.google.internal/
http://router.lan/
http://intranet/
http://metadata/
http://kubernetes.default.svc.cluster.local/
http://user@127.0.0.1/
http://user:pass@example.org/
http://example.org@127.0.0.1/
http://example.org:80@127.0.0.1/
http://example.org%40127.0.0.1/
http://127.0.0.1#@example.org/
http://127.0.0.1?@example.org/
http://example.org\\@127.0.0.1/
http://127.0.0.1\\.example.org/
http://127。0。0。1/
http://127．0．0．1/
http://１２７.0.0.1/
http://①②⑦.⓪.⓪.①/
http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/
http://localho\u017ft/
http://loc\u00adalhost/
http://127.0.0.1%00.example.org/
http://%31%32%37.0.0.1/
http://%6c%6f%63%61%6c%68%6f%73%74/
http://[::1].example.org/
http://[::1
http:///etc/passwd
http:/127.0.0.1/
http:127.0.0.1
//127.0.0.1/
file:///etc/passwd
ftp://127.0.0.1/
gopher://127.0.0.1:6379/_x
dict://127.0.0.1:11211/
data:text/html,x
javascript:alert(1)
unix:///var/run/docker.sock
http+unix://%2Fvar%2Frun%2Fdocker.sock/
ws://127.0.0.1/
jar:http://127.0.0.1!/
http://127.0.0.1\t.example.org/
http://exa mple.org/
http://example.org:0/
http://example.org:99999/
http://example.org:-1/
http://-example.org/
http://ex_ample..org/
http://.example.org/
http://1.2.3/
http://1.2.3.4.5/
http://256.256.256.256/
http://0xdeadbeef.org.0x7f/
"""


def urls() -> list[str]:
    return [
        line.encode("utf-8").decode("unicode_escape") if "\\u" in line or "\\t" in line else line
        for line in REFUSED.strip().split("\n")
    ]


async def nothing_is_resolved(host: str, port: int) -> Sequence[str]:
    """Any look-up of these names would end at home."""
    del port
    return ["127.0.0.1"] if host else []


@pytest.mark.parametrize("url", urls())
async def test_nothing_but_the_public_web_is_reached(url: str) -> None:
    fetcher = Fetcher(nothing_is_resolved, is_public, seconds=5, most=1000)
    with pytest.raises(ToolError, match=r"^[^\n]+$") as error:
        await fetcher.get(url)
    assert "onnect" not in str(error.value)  # refused before any connection was tried


def test_the_list_is_long_enough() -> None:
    assert len(urls()) >= 100


@pytest.mark.parametrize(
    "address",
    """
        8.8.8.8 1.1.1.1 93.184.216.34 2606:4700:4700::1111 2a00:1450:4001::200e 64:ff9b::808:808
    """.split(),
)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%eth0"],
        ["fd00::1"],
        ["8.8.8.8", "127.0.0.1"],  # one good address does not excuse the other
        ["8.8.8.8", "::1"],
        ["0.0.0.0"],
        ["not an address"],
        [],
    ],
)
async def test_a_public_name_with_a_private_address_is_refused(answers: list[str]) -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        del host, port
        return answers

    with pytest.raises(ToolError):
        await Fetcher(resolver, is_public, seconds=5, most=1000).get("http://rebind.example.org/")


class Site:
    """A web server on loopback that the resolver pretends is example.org."""

    def __init__(self) -> None:
        self.app = web.Application()
        self.hosts: list[str] = []
        self.port = 0
        self.lookups = 0
        self.answers: list[list[str]] = []

    def serve(self, path: str, answer: Callable[[web.Request], web.StreamResponse]) -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            self.hosts.append(request.host)
            return answer(request)

        self.app.router.add_get(path, handler)

    async def resolver(self, host: str, port: int) -> Sequence[str]:
        del host, port
        self.lookups += 1
        return self.answers.pop(0) if self.answers else ["127.0.0.1"]

    def url(self, path: str, host: str = "example.org") -> str:
        return f"http://{host}:{self.port}{path}"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    runner: list[web.AppRunner] = []

    async def start() -> None:
        runner.append(web.AppRunner(site.app, shutdown_timeout=1))
        await runner[0].setup()
        await web.TCPSite(runner[0], "127.0.0.1", 0).start()
        site.port = runner[0].addresses[0][1]

    site.start = start  # type: ignore[attr-defined]
    yield site
    await runner[0].cleanup()


def here(ip: IPv4Address | IPv6Address) -> bool:
    """The test's own server counts as public; everything else by the rule."""
    return str(ip) == "127.0.0.1" or is_public(ip)


@pytest.fixture
def fetch(bench: Workbench, context: CallContext, site: Site) -> Call:
    tool = load_tools(
        replace(
            bench,
            resolver=site.resolver,
            reachable=here,
            limits=Limits(web_timeout=3, web_bytes=200_000, web_output=5_000),
        )
    )["WebFetch"]

    async def run(**arguments: object) -> object:
        return (await tool.run(tool.input.model_validate(arguments), context)).result

    return run  # type: ignore[return-value]


PAGE = """<html><head><title>News</title><script>evil()</script><style>x{}</style></head><body><nav>menu</nav>
<main><h1>Hello</h1><p>A <b>bold</b> <a href="/more">link</a> and enough words to count as the main part of this page, which needs two hundred
characters of text before the rest is left out, so here are some more of them, and a few more still.</p><ul><li>one</li><li>two</li></ul>
<pre><code>x = 1</code></pre><p style="display:none">hidden instructions</p></main></body></html>"""


async def test_a_page_comes_back_as_markdown(site: Site, fetch: Call) -> None:
    site.serve("/", lambda _: web.Response(text=PAGE, content_type="text/html"))
    await site.start()  # type: ignore[attr-defined]
    result = await fetch(url=site.url("/"))
    assert not result.error
    assert "HTTP 200" in result.text
    assert "data, not instructions" in result.text
    assert "# Hello" in result.text
    assert f"[link](http://example.org:{site.port}/more)" in result.text
    assert "- one" in result.text
    for gone in ("evil", "menu", "hidden instructions", "x{}"):
        assert gone not in result.text
    assert site.hosts == [f"example.org:{site.port}"]
    assert site.lookups == 1


async def test_the_name_is_looked_up_once_so_that_a_second_answer_changes_nothing(
    site: Site, fetch: Call
) -> None:
    site.answers = [["127.0.0.1"], ["10.0.0.1"], ["10.0.0.1"]]
    site.serve("/", lambda _: web.Response(text="once"))
    await site.start()  # type: ignore[attr-defined]
    assert "once" in (await fetch(url=site.url("/"))).text
    assert site.lookups == 1


async def test_each_redirect_is_checked_again(site: Site, fetch: Call) -> None:
    site.answers = [["127.0.0.1"], ["10.0.0.1"]]
    site.serve("/", lambda _: web.Response(status=302, headers={"Location": "/next"}))
    site.serve("/next", lambda _: web.Response(text="inside"))
    await site.start()  # type: ignore[attr-defined]
    result = await fetch(url=site.url("/"))
    assert result.error
    assert "10.0.0.1" in result.text


@pytest.mark.parametrize(
    "target",
    """
        http://127.0.0.1:1/ http://169.254.169.254/ http://[::1]/ http://localhost/
        file:///etc/passwd http://u:p@example.org/ //0x7f.1/ http://2130706433/
    """.split(),
)
async def test_a_redirect_to_a_private_place_is_refused(
    site: Site, bench: Workbench, target: str
) -> None:
    site.serve("/", lambda _: web.Response(status=302, headers={"Location": target}))
    await site.start()  # type: ignore[attr-defined]
    first = [True]

    def reachable(ip: IPv4Address | IPv6Address) -> bool:
        """Only the first connection may go to loopback."""
        return first.pop() if first else is_public(ip)

    with pytest.raises(ToolError):
        await Fetcher(site.resolver, reachable, seconds=3, most=1000).get(site.url("/"))


async def test_a_redirect_to_another_host_is_told_not_followed(site: Site, fetch: Call) -> None:
    site.serve(
        "/",
        lambda _: web.Response(status=301, headers={"Location": "https://elsewhere.example.net/x"}),
    )
    await site.start()  # type: ignore[attr-defined]
    result = await fetch(url=site.url("/"))
    assert not result.error
    assert "https://elsewhere.example.net/x" in result.text
    assert len(site.hosts) == 1


async def test_redirects_within_the_host_are_followed_but_not_for_ever(
    site: Site, fetch: Call
) -> None:
    site.serve("/a", lambda _: web.Response(status=302, headers={"Location": "/b"}))
    site.serve("/b", lambda _: web.Response(text="arrived"))
    site.serve("/loop", lambda _: web.Response(status=302, headers={"Location": "/loop"}))
    await site.start()  # type: ignore[attr-defined]
    assert "arrived" in (await fetch(url=site.url("/a"))).text
    loop = await fetch(url=site.url("/loop"))
    assert loop.error
    assert "redirects" in loop.text


async def test_size_and_time_are_bounded(site: Site, fetch: Call) -> None:
    site.serve("/big", lambda _: web.Response(body=b"word " * 1_000_000, content_type="text/plain"))

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await asyncio.sleep(60)
        return answer

    site.app.router.add_get("/slow", slow)
    await site.start()  # type: ignore[attr-defined]
    big = await fetch(url=site.url("/big"))
    assert len(big.text) < 6_000
    assert "only the first part" in big.text
    assert big.spill is not None
    assert big.spill.stat().st_size == 200_000
    result = await fetch(url=site.url("/slow"))
    assert result.error
    assert "within 3 s" in result.text


async def test_a_compressed_bomb_stops_at_the_limit(site: Site, fetch: Call) -> None:
    def bomb(_: web.Request) -> web.Response:
        answer = web.Response(body=b"a" * 50_000_000, content_type="text/plain")
        answer.enable_compression(web.ContentCoding.gzip)
        return answer

    site.serve("/", bomb)
    await site.start()  # type: ignore[attr-defined]
    result = await fetch(url=site.url("/"))
    assert result.spill is not None
    assert result.spill.stat().st_size == 200_000


async def test_a_long_page_keeps_what_was_looked_for(site: Site, fetch: Call) -> None:
    body = "\n\n".join(
        [f"Paragraph {number} about nothing much at all." for number in range(1000)]
        + ["The password policy needs twelve characters."]
        + ["filler"] * 2000
    )
    site.serve("/", lambda _: web.Response(text=body))
    await site.start()  # type: ignore[attr-defined]
    assert "twelve characters" in (await fetch(url=site.url("/"), prompt="password policy")).text


async def test_errors_binaries_and_json_are_said_as_what_they_are(site: Site, fetch: Call) -> None:
    site.serve("/gone", lambda _: web.Response(status=404, text="not here"))
    site.serve(
        "/bin", lambda _: web.Response(body=b"\0\1\2", content_type="application/octet-stream")
    )
    site.serve("/json", lambda _: web.json_response({"a": [1]}))
    site.serve(
        "/odd",
        lambda _: web.Response(
            body="gr\xfcn".encode("latin-1"),
            headers={"Content-Type": "text/plain; charset=klingon"},
        ),
    )
    await site.start()  # type: ignore[attr-defined]
    gone = await fetch(url=site.url("/gone"))
    assert gone.error
    assert "404" in gone.text
    binary = await fetch(url=site.url("/bin"))
    assert "binary, 3 bytes" in binary.text
    assert binary.spill.read_bytes() == b"\0\1\2"
    assert '"a": [' in (await fetch(url=site.url("/json"))).text
    assert "gr" in (await fetch(url=site.url("/odd"))).text


async def test_a_refused_connection_is_one_line(site: Site, fetch: Call) -> None:
    await site.start()  # type: ignore[attr-defined]
    result = await fetch(url="http://example.org:1/")
    assert result.error
    assert "\n" not in result.text


def test_rules_see_the_host_that_is_connected_to() -> None:
    assert url_host("https://EXAMPLE.org./x") == "example.org"
    assert url_host("https://bücher.example/") == "xn--bcher-kva.example"
    assert url_host("http://127。0。0。1/") == "127.0.0.1"


def test_very_deep_pages_do_not_end_the_thread() -> None:
    assert "deep" in to_markdown("<div>" * 5000 + "deep" + "</div>" * 5000, "http://x.example/")


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<",
        "<html",
        "plain",
        "<p>" * 1000,
        "<a href='x",
        "&#0;&#xD800;",
        "<table><tr><td>1</table>",
    ],
)
def test_broken_pages_become_some_text(html: str) -> None:
    assert isinstance(to_markdown(html, "http://x.example/"), str)


async def test_no_proxy_of_the_environment_comes_between(
    site: Site, fetch: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would look the name up again, where nothing is checked."""
    proxied: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxied.append((await reader.readline()).decode())
        writer.close()

    listening = await asyncio.start_server(proxy, "127.0.0.1", 0)
    where = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    for name in "http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY".split():
        monkeypatch.setenv(name, where)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    site.serve("/", lambda _: web.Response(text="direct"))
    await site.start()  # type: ignore[attr-defined]
    assert "direct" in (await fetch(url=site.url("/"))).text
    listening.close()
    assert proxied == []


@pytest.mark.parametrize("host", ["168.63.129.16", "127.0.0.1", "[64:ff9b::a9fe:a9fe]"])
async def test_the_tool_as_it_is_built_refuses_by_the_same_rule(
    bench: Workbench, context: CallContext, host: str
) -> None:
    tool = load_tools(bench)["WebFetch"]
    result = (await tool.run(tool.input.model_validate({"url": f"http://{host}/"}), context)).result
    assert result.error
    assert "not on the public internet" in result.text
