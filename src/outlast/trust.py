"""Whose certificates our connections trust: read once, which takes longer than all else of making a client of HTTP."""

import os
import ssl
from functools import lru_cache
from typing import Final

import httpx

_NAMED: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def trusted() -> ssl.SSLContext:
    """What `httpx` trusts by itself, as the variables of the environment that name it have it now."""
    return _read(*map(os.environ.get, _NAMED))


@lru_cache(maxsize=1)
def _read(*_: str | None) -> ssl.SSLContext:
    return httpx.create_ssl_context()
