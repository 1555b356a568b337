"""Says hello to the gateway, once, when Claude Code starts a session: run as `python -I -S hello.py URL`.

It proves that hooks are in force before the first model request is let through. The token comes from the environment
variable `TOKEN_VARIABLE`. What it printed would be shown to the model, so it prints nothing. It imports little, since
it stands between the start and the first request.
"""

import os
import socket
import sys

TOKEN_VARIABLE = "OUTLAST_ATTEMPT_TOKEN"  # noqa: S105 - the name of a variable
DEADLINE_S = 8.0


def hello(url: str, token: str) -> bool:
    """Post an empty object to `url`, an `http://host:port/path`; whether the answer was a 200."""
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.rpartition(":")
    with socket.create_connection((name.strip("[]"), int(port)), timeout=DEADLINE_S) as wire:
        lines = (
            f"POST /{path} HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {token}",
            "Content-Type: application/json",
            "Content-Length: 2",
            "Connection: close",
            "",
            "{}",
        )
        wire.sendall("\r\n".join(lines).encode())
        return wire.recv(64).split(b" ")[1:2] == [b"200"]


if __name__ == "__main__":
    sys.exit(0 if hello(sys.argv[1], os.environ.get(TOKEN_VARIABLE, "")) else 1)
