"""SQL from the file beside its caller, by name."""

import re
from collections.abc import Callable
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT_OF_THE_NEXT = re.compile(r"(\n--[^\n]*|\n)+$")
_SCHEMA = re.compile(r"\boutlast\.")


def statements(caller: str) -> dict[str, str]:
    """The statements of the `.sql` file that has the name of the module `caller` (its `__file__`).

    Each begins with a line `-- name: …` and is a transaction by itself, unless its comment says otherwise.
    """
    parts = _NAME.split(Path(caller).with_suffix(".sql").read_text(encoding="utf-8"))
    return {
        name: _COMMENT_OF_THE_NEXT.sub("", text) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def in_schema(schema: str) -> Callable[[str], str]:
    """What turns a statement into the same on the tables of `schema`: the files say `outlast.`.

    Names are written out, since a search path is a setting of the session, of which a pooler leaves none.
    """
    known: dict[str, str] = {}

    def localized(statement: str) -> str:
        text = known.get(statement)
        if text is None:
            text = known[statement] = _SCHEMA.sub(f'"{schema}".', statement)
        return text

    return localized
