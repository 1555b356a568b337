"""Where a World lies: what its URL says."""

import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from outlast.errors import BadInput

SCHEMA: Final = "outlast"
CONNECTIONS: Final = 8
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_OURS: Final = ("schema", "pooler", "direct", "connections")


@dataclass(frozen=True, slots=True)
class Address:
    """A Postgres URL, taken apart."""

    name: str
    """What a person calls it: no user, no password."""
    dsn: str
    """What the driver is given."""
    schema: str
    pooled: bool
    """A pooler in transaction mode stands before the server."""
    direct: str | None
    """The server itself, past the pooler."""
    connections: int
    """How many this process may have open for its reads and writes."""


def parse_address(url: str) -> Address:
    """Read a URL.

    Raises:
        BadInput: it cannot be used. The message holds nothing of it that could be secret.
    """
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise _bad("it is no URL; a '/' or '@' in a password is written %2F, %40") from None
    ours = {name: value for name, value in options if name in _OURS}
    rest = urlencode([(name, value) for name, value in options if name not in _OURS])
    schema = ours.get("schema", SCHEMA)
    if not _NAME.fullmatch(schema):
        raise _bad("its schema must be 1 to 48 of a-z, 0-9, '_', beginning with a letter")
    pooler = ours.get("pooler", "none")
    if pooler not in {"none", "transaction"}:
        raise _bad("its pooler must be 'none' or 'transaction'")
    count = ours.get("connections", str(CONNECTIONS))
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= 1000):
        raise _bad("its connections must be a number from 1 to 1000")
    direct = ours.get("direct")
    if direct is not None and pooler == "none":
        raise _bad("it names a direct server but no pooler; add pooler=transaction")
    return Address(
        name=_name(parts, dict(options), schema),
        dsn=urlunsplit(parts._replace(query=rest)),
        schema=schema,
        pooled=pooler == "transaction",
        direct=None
        if direct is None
        else urlunsplit(parts._replace(netloc=_netloc(parts, direct), query=rest)),
        connections=int(count),
    )


def _netloc(parts: SplitResult, hosts: str) -> str:
    """The place `hosts` with the credentials of the URL."""
    credentials, at, _ = parts.netloc.rpartition("@")
    return f"{credentials}{at}{hosts}"


def _name(parts: SplitResult, options: dict[str, str], schema: str) -> str:
    hosts = parts.netloc.rpartition("@")[2] or options.get("host") or os.environ.get("PGHOST") or "localhost"
    database = parts.path.lstrip("/") or options.get("dbname") or options.get("database")
    database = database or os.environ.get("PGDATABASE") or "(default)"
    return f"postgres://{hosts}/{database}" + ("" if schema == SCHEMA else f"?schema={schema}")


def _bad(reason: str) -> BadInput:
    return BadInput(detail=f"The address of the World in Postgres cannot be used: {reason}.")
