"""What OpenCode knows of the models of one provider, out of the program itself.

It has a table of the models of all providers built in, and goes through the whole of it before its first request: that
takes about as much time as its start. Of a session but one provider is switched on. So its own entry, word for word, is
given to it in a file (`OPENCODE_MODELS_PATH`), and everything that follows from it is the same. A program in which the
entry is not found as it was in the tested versions is given none, and goes through its whole table.
"""

import json
import mmap
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

_READS: Final = b"OPENCODE_MODELS_PATH"
"""Where the program reads the file, just before the table which it takes where there is none."""
_UNKNOWN: Final = frozenset({"openai-compatible"})
"""Providers that the table has never had: configuration says all there is to know."""
_LONGEST: Final = 16_000_000
"""How many bytes behind that the table may take."""
_ENTRY: Final = 4_000_000
_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<key>[A-Za-z_$][\w$]*)(?=:)|(?P<flag>![01])|(?P<brace>[{}])"""
)


@lru_cache(maxsize=8)
def table_of(program: Path, provider: str) -> str | None:
    """The table with the entry of this provider alone, in JSON; None if the program does not show it."""
    if provider in _UNKNOWN:
        return "{}"
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            text = _entry(whole, provider)
    except (OSError, ValueError):
        return None
    return None if text is None else _json(text, provider)


def _entry(whole: mmap.mmap, provider: str) -> str | None:
    begins = whole.find(_READS)
    name = provider if provider.isidentifier() else f'"{provider}"'
    at = (
        whole.find(f'{name}:{{id:"{provider}",env:['.encode(), begins, begins + _LONGEST)
        if begins >= 0
        else -1
    )
    if at < 0:
        return None
    return whole[at + len(name) + 1 : at + _ENTRY].decode(errors="replace")


def _json(text: str, provider: str) -> str | None:
    """The object literal that the text begins with (ECMA-262, 13.2.5), as the bundler writes it, in JSON."""
    pieces: list[str] = []
    depth = at = 0
    for token in _TOKEN.finditer(text):
        pieces.append(text[at : token.start()])
        at = token.end()
        match token.lastgroup:
            case "key":
                pieces.append(f'"{token[0]}"')
            case "flag":
                pieces.append("true" if token[0] == "!0" else "false")
            case _:
                pieces.append(token[0])
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            break
    found = "".join(pieces)
    try:
        return None if "\ufffd" in found else json.dumps({provider: json.loads(found)}, separators=(",", ":"))
    except ValueError:
        return None
