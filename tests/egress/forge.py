"""A forge: git's own server over HTTP, an index of Python packages and a registry of npm's, all behind credentials."""

import base64
import io
import json
import os
import ssl
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Final, Literal

PIECE: Final = 64 * 1024
HELD_S: Final = 60.0
WHEEL: Final = "demo-1.0-py3-none-any.whl"


Cut = Literal["", "before it lands", "after it landed"]


@dataclass
class Forge:
    """What it is, and what it was asked."""

    root: Path
    """Of bare repositories."""
    user: str
    secret: str
    port: int = 0
    asked: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])
    """Method, path without query, and whether the credential was right."""
    slow: threading.Event = field(default_factory=threading.Event)
    """What is waited for at `…/slow`."""
    cuts: Cut = ""
    """Where the next push is held up, and never gets an answer."""
    held: threading.Event = field(default_factory=threading.Event)
    """A push is held up."""

    def make(self, name: str) -> Path:
        """An empty repository that may be pushed to."""
        path = self.root / name
        subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", path], check=True)
        subprocess.run(["git", "-C", path, "config", "http.receivepack", "true"], check=True)
        told = path / "hooks/post-receive"
        told.write_text("#!/bin/sh\ncat >> pushes\n")
        told.chmod(0o755)
        return path

    def pushes(self, name: str) -> list[str]:
        """Of a repository, each change of a reference that a push made: what it was, what it became, its name."""
        path = self.root / name / "pushes"
        return path.read_text().splitlines() if path.exists() else []

    def admits(self, header: str) -> bool:
        kind, _, value = header.partition(" ")
        if kind == "Bearer":
            return value == self.secret
        return kind == "Basic" and value == base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, forge: Forge, *args: object) -> None:
        self._forge = forge
        super().__init__(*args)  # pyright: ignore[reportArgumentType] - a request, an address, the server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name for it
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        header = self.headers.get("Authorization", "")
        good = self._forge.admits(header)
        self._forge.asked.append((self.command, path, good))
        if path.startswith("/moved/"):
            where = f"https://{self._forge.user}:{self._forge.secret}@forge.test:{self._forge.port}"
            self._say(302, b"", Location=where + path.removeprefix("/moved"))
        elif not good:
            said = f"Not for {header or 'nobody'}\n".encode()
            self._say(401, said, **{"WWW-Authenticate": 'Basic realm="forge"'})
        elif path.endswith("/slow"):
            self._forge.slow.wait(20)
            self._say(200, b"at last\n")
        elif path == "/echo":
            self._say(
                200, f"{header}\n".encode(), **{"X-Echo": header, "Set-Cookie": f"t={self._forge.secret}"}
            )
        elif path in _FILES:
            kind, data = _FILES[path]
            self._say(200, data(self.headers["Host"]), **{"Content-Type": kind})
        else:
            self._git(path, query)

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _git(self, path: str, query: str) -> None:
        """As any CGI server does it."""
        cuts = self._forge.cuts if path.endswith("/git-receive-pack") else ""
        if cuts:
            self._forge.cuts = ""
            self._cut_off(path, query, cuts)
            return
        with subprocess.Popen(
            ["git", "http-backend"], env=self._env(path, query), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as cgi:
            assert cgi.stdin is not None
            assert cgi.stdout is not None
            feeding = threading.Thread(target=_feed, args=(cgi.stdin, self._body()))
            feeding.start()
            self._relay(cgi.stdout)
            feeding.join()

    def _env(self, path: str, query: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self._forge.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": self._forge.user,
            "REMOTE_ADDR": "127.0.0.1",
        }

    def _cut_off(self, path: str, query: str, cuts: Cut) -> None:
        """A push that is taken in and, if so, carried out; whoever pushes hears nothing of either."""
        body = b"".join(self._body())
        if cuts == "after it landed":
            subprocess.run(
                ["git", "http-backend"],
                env=self._env(path, query),
                input=body,
                check=True,
                capture_output=True,
            )
        self._forge.held.set()
        self.connection.settimeout(HELD_S)
        with suppress(OSError):
            self.connection.recv(1)  # until whoever pushes is gone
        self.close_connection = True

    def _relay(self, said: IO[bytes]) -> None:
        headers: dict[str, str] = {}
        while line := said.readline().strip().decode():
            name, _, value = line.partition(":")
            headers[name.title()] = value.strip()
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := said.read(PIECE):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _body(self) -> Iterator[bytes]:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline().strip(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", "0"))
        while left and (piece := self.rfile.read(min(PIECE, left))):
            left -= len(piece)
            yield piece


def _feed(into: IO[bytes], pieces: Iterator[bytes]) -> None:
    with into:
        for piece in pieces:
            into.write(piece)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever goes away in the middle is not the server's trouble."""


@contextmanager
def open_forge(
    root: Path, secret: str, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
) -> Generator[Forge]:
    """Serve a forge on an address of the loopback; with `tls`, over that."""
    forge = Forge(root, "git", secret)
    with _Server((address, 0), partial(_Handler, forge)) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        forge.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield forge
        finally:
            forge.slow.set()
            server.shutdown()
            thread.join()


def _wheel(_: str) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("demo.py", "SAID = 'a private package'\n")
        archive.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        archive.writestr(
            "demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("demo-1.0.dist-info/RECORD", "")
    return into.getvalue()


def _package(_: str) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w:gz") as archive:
        data = json.dumps({"name": "demo", "version": "1.0.0"}).encode()
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return into.getvalue()


def _index(_: str) -> bytes:
    return f'<!DOCTYPE html><a href="../../files/{WHEEL}">{WHEEL}</a>'.encode()


def _listing(host: str) -> bytes:
    tarball = f"https://{host}/npm/demo.tgz"
    version = {"name": "demo", "version": "1.0.0", "dist": {"tarball": tarball}}
    return json.dumps(
        {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    ).encode()


_FILES: Final = {
    "/simple/demo/": ("text/html", _index),
    f"/files/{WHEEL}": ("application/octet-stream", _wheel),
    "/npm/demo": ("application/json", _listing),
    "/npm/demo.tgz": ("application/octet-stream", _package),
}
