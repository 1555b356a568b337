"""The page's own files: what a browser is told of them, and what they may hold."""

import gzip
import re
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import outlast.server
from outlast.server.routes.page import page_routes

PAGE = Path(outlast.server.__file__).parent / "page"


@pytest.fixture
def browser() -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Starlette(routes=page_routes()))
    return httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers={"accept-encoding": ""}
    )


async def test_every_file_that_the_shell_names_is_there_and_is_kept_for_good(
    browser: httpx.AsyncClient,
) -> None:
    shell = await browser.get("/")
    named = set(re.findall(r'(?:href|src)="(page/[^"]+)"', shell.text))
    assert len(named) > 10
    for address in named:
        found = await browser.get(address)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]
        assert found.content == (PAGE / address.split("/", 2)[2]).read_bytes()


@pytest.mark.parametrize("path", ["/", "/decide/abc.def", "/agents/", "/agents/decide/abc.def"])
async def test_the_page_finds_its_files_below_any_path(path: str) -> None:
    whole = Starlette(routes=[Mount("/agents", Starlette(routes=page_routes())), *page_routes()])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(whole), base_url="http://host") as browser:
        shell = await browser.get(path)
        named = re.findall(r'(?:href|src)="([^"#]+)"', shell.text)
        assert len(named) > 10
        for one in named:
            address = shell.url.join(one)
            assert address.path.startswith(path.partition("decide")[0])
            assert (await browser.get(address)).status_code == 200


def test_the_page_asks_for_nothing_at_a_path_of_its_own() -> None:
    """`root` of `api.js` says where the server is."""
    for path in PAGE.rglob("*.js"):
        assert not re.findall(r"""["'`]/(?:v1|page|decide)\b""", path.read_text()), path


async def test_modules_import_what_the_shell_has_announced(browser: httpx.AsyncClient) -> None:
    announced = set(re.findall(r'modulepreload" href="page/[^/]+/([^"]+)"', (await browser.get("/")).text))
    for name in announced:
        imported = re.findall(r'^import [^;]*?"\./([^"]+)"', (PAGE / name).read_text(), re.MULTILINE)
        assert set(imported) <= announced


async def test_the_shell_is_asked_about_again_and_costs_nothing_when_it_is_the_same(
    browser: httpx.AsyncClient,
) -> None:
    first = await browser.get("/")
    assert first.headers["cache-control"] == "no-cache"
    again = await browser.get("/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_the_shell_comes_in_the_scheme_that_somebody_chose(browser: httpx.AsyncClient) -> None:
    plain = await browser.get("/")
    assert "data-scheme" not in plain.text
    for scheme in ("dark", "light"):
        headers = {"cookie": f"outlast-scheme={scheme}", "if-none-match": plain.headers["etag"]}
        assert f'<html data-scheme="{scheme}" lang="en">' in (await browser.get("/", headers=headers)).text
    forged = await browser.get("/", headers={"cookie": 'outlast-scheme="><script>'})
    assert forged.text == plain.text


async def test_a_browser_that_takes_gzip_gets_the_same_bytes_squeezed(browser: httpx.AsyncClient) -> None:
    plain = await browser.get("/")
    async with browser.stream("GET", "/", headers={"accept-encoding": "gzip"}) as squeezed:
        raw = b"".join([piece async for piece in squeezed.aiter_raw()])
    assert gzip.decompress(raw) == plain.content
    assert squeezed.headers["etag"] != plain.headers["etag"]


@pytest.mark.parametrize(
    "path", ["/page/0/main.js", "/page/x/../../page.py", "/page/x/%2e%2e/routes/page.py"]
)
async def test_nothing_but_the_files_of_this_version_is_there(browser: httpx.AsyncClient, path: str) -> None:
    assert (await browser.get(path)).status_code == 404


def test_the_page_holds_nothing_inline_and_nothing_of_another_host() -> None:
    for path in PAGE.rglob("*.*"):
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path
        assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|eval|document\.write)\b", text), path
    shell = (PAGE / "index.html").read_text()
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]*src=)", shell)


def test_every_module_of_the_page_fits_one_reading() -> None:
    too_long = {path.name: len(path.read_text().splitlines()) for path in PAGE.rglob("*.js")}
    assert not {name: lines for name, lines in too_long.items() if lines > 400}
