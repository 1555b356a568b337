"""Writes the table of `docs/reference/http.md` from the table of operations: `python -m tests.http_reference`."""

import inspect
from pathlib import Path
from typing import Final

from outlast.server.operations import Operation
from outlast.server.table import OPERATIONS

PAGE: Final = Path(__file__).parents[1] / "docs/reference/http.md"
BEGIN, END = "<!-- operations: python -m tests.http_reference -->", "<!-- end of operations -->"


def row(one: Operation) -> str:
    """An operation, as the page lists it."""
    said = inspect.cleandoc(one.answer.__doc__ or "").partition("\n")[0]
    scope = "-" if one.scope is None else one.scope.value
    return f"| `{one.method} {one.path}` | {scope} | {said} |"


def written(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = "\n".join(["| operation | scope | what it does |", "|---|---|---|", *map(row, OPERATIONS)])
    return f"{before}{BEGIN}\n{rows}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
