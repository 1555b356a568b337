"""Two processes of the measurement `egress`: the host that is asked, and the client that asks it in three ways.

`host DIRECTORY` serves HTTPS as `forge.test`, of the authority in that directory, and says its port. `client` reads a
line of JSON for each thing to measure, and answers with seconds.
"""

import asyncio
import json
import socket
import ssl
import sys
import time
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from outlast.clock import SystemClock
from outlast.workspaces.egress.authority import open_authority

PIECE = bytes(64 * 1024)
NAME = "forge.test"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bytes as many as the path says; bodies are read and forgotten."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            left = int(length or 0)
            while left > 0:
                left -= len(await reader.read(1 << 18))
            size = int(head.split()[1].strip(b"/"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for at in range(0, size, len(PIECE)):
                writer.write(PIECE[: size - at])
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def host(directory: str) -> None:
    """Serve until killed."""
    context = open_authority(Path(directory), [NAME], SystemClock()).context(NAME)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context, limit=1 << 18)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def connect(way: dict[str, Any]) -> HTTPConnection:
    """To the host: straight, or through the proxy at a unix socket."""
    if way["proxy"]:
        raw = socket.socket(socket.AF_UNIX)
        raw.connect(way["proxy"])
        raw.sendall(f"CONNECT {NAME}:{way['port']} HTTP/1.1\r\nHost: {NAME}:{way['port']}\r\n\r\n".encode())
        heard = b""
        while not heard.endswith(b"\r\n\r\n"):
            heard += raw.recv(1)
    else:
        raw = socket.create_connection(("127.0.0.1", way["port"]))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = ssl.create_default_context(cafile=way["trusts"])
    connection = HTTPConnection(NAME, way["port"])
    connection.sock = context.wrap_socket(raw, server_hostname=NAME)
    return connection


def fetch(connection: HTTPConnection, size: int, body: int) -> None:
    """One request, to its end."""
    if body:
        connection.putrequest("PUT", f"/{size}")
        connection.putheader("Content-Length", str(body))
        connection.endheaders()
        for at in range(0, body, len(PIECE)):
            connection.send(PIECE[: body - at])
    else:
        connection.request("GET", f"/{size}")
    response: HTTPResponse = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(response.read().decode())
    while response.read(1 << 18):
        pass


def client() -> None:
    """Answer what is asked, line by line."""
    for line in sys.stdin:
        way = json.loads(line)
        took: list[float] = []
        connection = connect(way)
        fetch(connection, 1, 0)
        for _ in range(way["times"]):
            began = time.perf_counter()
            if way["anew"]:
                connection.close()
                connection = connect(way)
            fetch(connection, way["size"], way["body"])
            took.append(time.perf_counter() - began)
        connection.close()
        print(json.dumps(took), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "host":
        asyncio.run(host(sys.argv[2]))
    else:
        client()
