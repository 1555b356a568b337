"""Names and hashes: only this module makes random ids and digests."""

import hashlib
import os
import re
import uuid
from base64 import b32encode, urlsafe_b64encode
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Final

import blake3

from outlast.errors import BadSessionId

_SESSION: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_NAMESPACE: Final = uuid.UUID("6f0d5d0a-7b0e-4c6e-9d3b-6f75746c6173")
DIGEST_BYTES: Final = 16
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def new_id(prefix: str) -> str:
    """A fresh random name: `prefix`, a dash and 80 random bits in lower-case base 32."""
    return f"{prefix}-{b32encode(os.urandom(10)).decode().lower()}"


def derived_id(prefix: str, *parts: bytes) -> str:
    """`prefix`, a dash and 80 bits of the hash of `parts` in lower-case base 32: the same name for the same parts."""
    return f"{prefix}-{b32encode(_hashed(parts, 10)).decode().lower()}"


def new_token() -> str:
    """A secret that cannot be guessed: 256 random bits, URL-safe."""
    return urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")


def check_session_id(session: str) -> str:
    """Return `session` if it is a session id.

    Raises:
        BadSessionId: it does not match `[a-z0-9][a-z0-9._-]{0,127}`.
    """
    if not _SESSION.fullmatch(session):
        raise BadSessionId(session=session)
    return session


def digest(*parts: bytes) -> str:
    """blake3 over length-framed `parts`, 128 bits as 22 characters of URL-safe base 64."""
    return _name(_hashed(parts, DIGEST_BYTES))


def short_digest(*parts: bytes) -> int:
    """The first 64 bits of the same hash as a number, for where it costs little when two meet."""
    return int.from_bytes(_hashed(parts, 8), "little")


def number_of(bits: int, *parts: bytes) -> int:
    """The first `bits`, a multiple of 8, of the same hash as a number that is not 0."""
    return int.from_bytes(_hashed(parts, bits // 8), "big") or 1


def blob_hash(tenant: str, data: bytes) -> str:
    """The name of `data` among the blobs of `tenant`: blake3 keyed by the tenant's name.

    Keyed by the name and not by an encryption key, so that rotating keys keeps hashes, and so that equal bytes of
    two tenants have unequal names.
    """
    key = blake3.blake3(tenant.encode()).digest(length=32)
    return _name(blake3.blake3(data, key=key).digest(length=DIGEST_BYTES))


def content_hash(data: bytes | memoryview, kind: bytes = b"") -> bytes:
    """blake3 of `data`, 32 bytes: that of a file's content. Of another `kind` of things, no content has the same."""
    if kind:
        return blake3.blake3(data, key=blake3.blake3(kind).digest(length=32)).digest(length=32)
    return blake3.blake3(data).digest(length=32)


class ContentHash:
    """`content_hash` of what comes in pieces."""

    def __init__(self) -> None:
        self._inner = blake3.blake3()

    def update(self, data: bytes | memoryview) -> None:
        self._inner.update(data)

    def digest(self) -> bytes:
        return self._inner.digest(length=32)


def _hashed(parts: Sequence[bytes], length: int) -> bytes:
    framed = b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "little"), part)])
    return blake3.blake3(framed).digest(length=length)


def _name(hashed: bytes) -> str:
    return b2a_base64(hashed, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def stable_uuid(*names: str) -> str:
    """The same UUID (version 5) for the same `names`, on every machine."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(names)))


def sha256(data: bytes) -> str:
    """SHA-256 in hexadecimal, for where another program's format asks for it; ours are `digest`."""
    return hashlib.sha256(data).hexdigest()
