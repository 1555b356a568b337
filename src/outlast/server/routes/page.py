"""The page: static files that are read once, and served as they are.

* Nothing of the page comes from another host, and nothing of it is inline: the policy that the application puts on
  every answer allows scripts and styles from here alone.
* A file's address holds the hash of all of them, so a browser keeps each for good and never mixes two versions.
* The addresses that the page knows are relative: it may stand below any path.
* The shell at `/` is the one answer that a browser asks about again. It holds no secret, and is the same for everybody
  but for the scheme that somebody chose, which a cookie tells: no script stands before the first paint.
"""

import gzip
import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.answers import json_answer
from outlast.ids import digest

_MEDIA: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_GOOD: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"
_SCHEME: Final = "outlast-scheme"
_SCHEMES: Final = ("dark", "light")
_MAIN: Final = "main.js"
_IMPORTS: Final = re.compile(r'^import [^;]* from "\./([^"]+)";$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent."""

    data: bytes
    squeezed: bytes
    media: str
    etag: str
    cache: str


def page_routes() -> Sequence[Route]:
    """The routes of the page: the shell at `/` and `/decide/{link}`, its files below `/page/`."""
    sources = dict(_sources(importlib.resources.files("outlast.server") / "page"))
    version = digest(*(part for name in sorted(sources) for part in (name.encode(), sources[name])))[:16]
    shells, below = (_shells(_shell(sources, version, up)) for up in ("", "../"))
    files = {name: _file(name, data, _FOR_GOOD) for name, data in sources.items() if name != "index.html"}

    async def page(request: Request) -> Response:
        return _answer(request, _chosen(request, shells))

    async def decide(request: Request) -> Response:
        return _answer(request, _chosen(request, below))

    async def file(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        if found is None or request.path_params["version"] != version:
            return json_answer(404, {"error": "The page has no such file in this version: load it again."})
        return _answer(request, found)

    return (
        Route("/", page, methods=["GET"]),
        Route("/decide/{link}", decide, methods=["GET"]),
        Route("/page/{version}/{name:path}", file, methods=["GET"]),
    )


def _sources(folder: Traversable, above: str = "") -> Iterable[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, f"{name}/")
        elif f".{name.rpartition('.')[2]}" in _MEDIA:
            yield name, entry.read_bytes()


def _shell(sources: Mapping[str, bytes], version: str, up: str) -> bytes:
    """The shell, with the addresses of this version, and the modules announced that it begins with.

    Else each of those would wait for who imports it. Views are not announced: they are imported when they are wanted,
    and would be in the way of the first paint.

    Args:
        up: leads to where the server is from where the shell is asked for, since nobody here knows at which path that
            is for a browser: an application that mounts it or a proxy chooses it.
    """
    # Behind the styles, which the first paint waits for.
    links = "\n".join(
        f'<link rel="modulepreload" href="/page/-/{name}" fetchpriority="low">' for name in _begun(sources)
    )
    text = sources["index.html"].decode().replace("<!-- modules -->", links)
    return text.replace("/page/-/", f"{up}page/{version}/").encode()


def _shells(shell: bytes) -> Mapping[str, _File]:
    """The shell by the scheme that somebody chose; under the empty name for who chose none."""
    chosen = {one: shell.replace(b"<html ", f'<html data-scheme="{one}" '.encode(), 1) for one in _SCHEMES}
    return {one: _file("index.html", data, _ASK_AGAIN) for one, data in {"": shell, **chosen}.items()}


def _chosen(request: Request, shells: Mapping[str, _File]) -> _File:
    return shells.get(request.cookies.get(_SCHEME, ""), shells[""])


def _begun(sources: Mapping[str, bytes]) -> Sequence[str]:
    """The modules that the first one imports, and what those do."""
    found = [_MAIN]
    for name in found:  # which grows meanwhile
        imported: list[str] = _IMPORTS.findall(sources[name].decode())
        found += [one for one in imported if one not in found]
    return sorted(found)


def _file(name: str, data: bytes, cache: str) -> _File:
    # Level and time stated: the same bytes in every process, as their tag says.
    squeezed = gzip.compress(data, 9, mtime=0)
    return _File(data, squeezed, _MEDIA[f".{name.rpartition('.')[2]}"], digest(data)[:32], cache)


def _answer(request: Request, file: _File) -> Response:
    takes = request.headers.get("accept-encoding", "")
    squeeze = any(one.split(";")[0].strip() == "gzip" for one in takes.split(","))
    etag = f'"{file.etag}-gzip"' if squeeze else f'"{file.etag}"'
    headers = {"etag": etag, "cache-control": file.cache, "vary": "accept-encoding, cookie"}
    known = request.headers.get("if-none-match", "")
    if etag in {one.strip().removeprefix("W/") for one in known.split(",")}:
        return Response(status_code=304, headers=headers)
    if squeeze:
        headers["content-encoding"] = "gzip"
    return Response(file.squeezed if squeeze else file.data, headers=headers, media_type=file.media)
