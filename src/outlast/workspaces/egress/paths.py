"""Paths of requests, in the one form in which they are compared with rules.

A rule about `/team` must not be written past, whatever the host makes of `/team/../other`, `/team/%2e%2e/other`,
`/team/..;/other`, `/team/..%20/other` or `/team%2f..%2fother`, nor of dots in more bytes than they need (`%c0%ae`).
Such paths are nobody's honest requests, so they are not taken at all.
"""

import re
from typing import Final

_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_SEPARATORS: Final = re.compile(r"/|\\|%2F|%5C", re.IGNORECASE)
_OVERLONG: Final = re.compile(r"%C[01]", re.IGNORECASE)
_BLANK: Final = re.compile(r"%(?:[01][0-9A-F]|20|7F)")
_TWICE: Final = re.compile(r"%25(?:25)*(?:2e|2f|5c|00)", re.IGNORECASE)


def normal(path: str) -> str | None:
    """A path (without query) with escapes only where they are needed, in capitals; None: it is not taken."""
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
        return None
    if _TWICE.search(path) or _OVERLONG.search(path):
        return None
    try:
        plain = _ESCAPE.sub(_unescaped, path)
    except ValueError:
        return None
    if "\\" in plain or "%00" in plain or "#" in plain or "?" in plain:
        return None
    for segment in _SEPARATORS.split(plain):
        if _BLANK.sub("", segment.partition(";")[0]) in {".", ".."}:
            return None
    return plain


def below(prefix: str, path: str) -> bool:
    """Whether a normal path is `prefix` or below it."""
    if prefix in {path, "/"}:
        return True
    return path.startswith(prefix if prefix.endswith("/") else prefix + "/")


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is None:
        raise ValueError("a percent sign that escapes nothing")
    sign = chr(int(found[1], 16))
    return sign if sign in _UNRESERVED else f"%{found[1].upper()}"
