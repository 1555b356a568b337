"""The table, and the file that machines read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.frame import Row

KEPT = ("name", "world", "value", "unit", "floor", "ratio", "target", "met")
COLUMNS = ("name", "world", "value", "unit", "floor", "ratio", "target", "met", "spread of the repeats")


def show(rows: Sequence[Row], machine: Mapping[str, str], console: Console) -> None:
    """Print the machine, the table, and below it what was missed and why."""
    for name, fact in machine.items():
        console.print(Text(f"{name:>12}  {fact}"), soft_wrap=True)
    table = Table(*COLUMNS, box=None, pad_edge=False, collapse_padding=True)
    for row in rows:
        table.add_row(
            Text(row.name),
            row.world,
            _figure(row.value),
            row.unit,
            _figure(row.floor),
            _figure(row.ratio),
            row.target,
            _met(row.met),
            row.spread,
        )
    console.print(table)
    for row in rows:
        if row.why:
            word = "missed" if row.met is False else "note"
            console.print(Text(f"{word}: {row.name}: {row.why}"), soft_wrap=True)


def keep(rows: Sequence[Row], file: Path, world: str, *, beside: bool, apart: Sequence[str] = ()) -> None:
    """Write the figures as a list of objects, one a line, and leave the rows of other Worlds there.

    Args:
        rows: what was measured.
        file: where.
        world: in which.
        beside: leave the rows of other measurements there too.
        apart: harnesses whose rows, which begin with their names, are of other runs and stay in any case.
    """
    fresh = {(row.name, row.world): {key: _kept(getattr(row, key)) for key in KEPT} for row in rows}
    there: dict[tuple[str, str], dict[str, object]] = {}
    if file.exists():
        old: list[dict[str, object]] = json.loads(file.read_text(encoding="utf-8"))
        there = {
            (str(row["name"]), str(row["world"])): row
            for row in old
            if beside
            or row["world"] != world
            or str(row["name"]).startswith(tuple(f"{name}:" for name in apart))
        }
    lines = [json.dumps(row, ensure_ascii=False) for row in {**there, **fresh}.values()]
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def _kept(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _met(met: bool | None) -> str:  # noqa: FBT001 - a field of a row
    return "" if met is None else "yes" if met else "NO"
