"""Where the Docker daemon listens: as its own command line finds it.

First `DOCKER_HOST`, then the context that `docker context use` chose, then the sockets that daemons make by default
(Docker's own, rootless Docker's, Docker Desktop's, Podman's). Contexts are laid out as the command line writes them:
`contexts/meta/<sha256 of the name>/meta.json` below its configuration directory.
"""

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from outlast.errors import SandboxUnsupported

PROVIDER: Final = "docker"
_TLS_PORT: Final = 2376
_PLAIN_PORT: Final = 2375


@dataclass(frozen=True, slots=True)
class Address:
    """A daemon."""

    socket: str = ""
    """Path of its unix socket; empty: it listens at `url`."""
    url: str = "http://docker"
    certificates: str = ""
    """Directory of `ca.pem`, `cert.pem`, `key.pem`; empty: no TLS."""

    @property
    def here(self) -> bool:
        """It may see this machine's files: it listens on a socket that is one of them."""
        return bool(self.socket)

    @property
    def name(self) -> str:
        """As `DOCKER_HOST` has it, for people."""
        return f"unix://{self.socket}" if self.socket else self.url.replace("http", "tcp", 1)

    def context(self) -> ssl.SSLContext | bool:
        """What TLS is verified with; False: there is none.

        Raises:
            SandboxUnsupported: the certificates cannot be read.
        """
        if not self.certificates:
            return False
        where = Path(self.certificates)
        try:
            made = ssl.create_default_context(cafile=str(where / "ca.pem"))
            made.load_cert_chain(str(where / "cert.pem"), str(where / "key.pem"))
        except (OSError, ssl.SSLError) as error:
            raise SandboxUnsupported(
                provider=PROVIDER,
                reason=f"the certificates in {where} cannot be read ({error}).",
                way_out="DOCKER_CERT_PATH names a directory with ca.pem, cert.pem and key.pem.",
            ) from error
        return made


def address_of(environ: Mapping[str, str], host: str = "") -> Address:
    """The daemon that `host`, else this environment, means.

    Raises:
        SandboxUnsupported: nothing says where one is, or in a way that we do not speak.
    """
    named = host or environ.get("DOCKER_HOST", "")
    certificates = environ.get("DOCKER_CERT_PATH", "") if environ.get("DOCKER_TLS_VERIFY") else ""
    if named:
        return _parsed(named, certificates)
    config = Path(environ.get("DOCKER_CONFIG") or _home(environ) / ".docker")
    chosen = environ.get("DOCKER_CONTEXT") or _json(config / "config.json").get("currentContext", "")
    if chosen and chosen != "default":
        return _of_context(config, str(chosen))
    for socket in _usual(environ):
        if socket.is_socket():
            return Address(str(socket))
    raise SandboxUnsupported(
        provider=PROVIDER,
        reason=f"no daemon's socket was found ({', '.join(map(str, _usual(environ)))}).",
        way_out="Start Docker or Podman (`podman system service`), or set DOCKER_HOST to where it listens.",
    )


def _parsed(host: str, certificates: str) -> Address:
    parts = urlsplit(host)
    if parts.scheme == "unix" and parts.path:
        return Address(parts.path)
    if parts.scheme in {"tcp", "http", "https"} and parts.hostname:
        secure = bool(certificates) or parts.scheme == "https"
        port = parts.port or (_TLS_PORT if secure else _PLAIN_PORT)
        return Address("", f"{'https' if secure else 'http'}://{parts.hostname}:{port}", certificates)
    raise SandboxUnsupported(
        provider=PROVIDER,
        reason=f"{host!r} is no address that outlast reaches a daemon at.",
        way_out=(
            "Give unix:///path or tcp://host:port. For ssh://, forward the socket first: "
            "`ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST`, then unix:///tmp/docker.sock."
        ),
    )


def _of_context(config: Path, name: str) -> Address:
    for meta in sorted((config / "contexts" / "meta").glob("*/meta.json")):
        said = _json(meta)
        if said.get("Name") == name:
            host = str(said.get("Endpoints", {}).get("docker", {}).get("Host", ""))
            tls = config / "contexts" / "tls" / meta.parent.name / "docker"
            return _parsed(host, str(tls) if tls.is_dir() else "")
    raise SandboxUnsupported(
        provider=PROVIDER,
        reason=f"there is no Docker context {name!r} in {config}.",
        way_out="`docker context ls` shows those there are; or set DOCKER_HOST.",
    )


def _usual(environ: Mapping[str, str]) -> Iterator[Path]:
    yield Path("/var/run/docker.sock")
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    yield Path(runtime) / "docker.sock"
    yield _home(environ) / ".docker/run/docker.sock"
    yield Path(runtime) / "podman/podman.sock"
    yield Path("/run/podman/podman.sock")


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/")


def _json(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}
