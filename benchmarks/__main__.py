"""`python -m benchmarks`: measure, print the table, write `latest.json`."""

import asyncio
import gc
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from benchmarks.frame import Bench, Measure, Row
from benchmarks.machine import facts
from benchmarks.measures import MEASURES
from benchmarks.report import keep, show
from benchmarks.standing import standing

LATEST = Path(__file__).with_name("latest.json")
NAMES = [measure.name for measure in MEASURES]
HARNESSES = ("claude-code", "codex", "opencode", "pi")


@click.command()
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="This measurement; may be given again.")
@click.option(
    "--harness",
    "harnesses",
    multiple=True,
    type=click.Choice([*HARNESSES, "all"]),
    help="The measurements that take each harness by itself, of this one; may be given again.",
)
@click.option("--quick", is_flag=True, help="Fewer repeats: for a look, not for a figure; latest.json stays.")
@click.option(
    "--world",
    type=click.Choice(["sqlite", "postgres", "memory"]),
    default="sqlite",
    show_default=True,
    help="`postgres` starts a server of its own on the disk that is measured.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".cache", "bench"),
    show_default=True,
    help="On the disk that is to be measured.",
)
def main(
    only: tuple[str, ...], harnesses: tuple[str, ...], directory: Path, world: str, *, quick: bool
) -> None:
    """Measure outlast on this machine; exit 1 when a measurement failed to run. A missed target is no failure."""
    directory.mkdir(parents=True, exist_ok=True)
    directory = directory.resolve()
    chosen = [
        measure
        for measure in MEASURES
        if (measure.name in only if only else measure.per_harness == bool(harnesses))
        and world in measure.worlds
    ]
    named = HARNESSES if not harnesses or "all" in harnesses else harnesses
    rows: list[Row] = []
    failed: list[str] = []
    with standing(world, directory) as server:
        machine = facts(directory, server)
        for measure in chosen:
            began = time.monotonic()
            try:
                rows += _run(measure, Bench(directory, world, quick, server, named))
            except Exception as error:  # noqa: BLE001 - told below, and the other measurements go on
                failed.append(f"{measure.name}: {type(error).__name__}: {error}")
            click.echo(f"{measure.name}: {time.monotonic() - began:.0f} s", err=True)
            if not quick:  # a run that is cut off has not measured in vain
                keep(rows, LATEST, world, beside=True, apart=HARNESSES)
    show(rows, machine, Console(width=None if sys.stdout.isatty() else 230))
    if not quick:
        keep(rows, LATEST, world, beside=bool(only or harnesses or failed), apart=HARNESSES)
    for text in failed:
        click.echo(f"FAILED {text}", err=True)
    sys.exit(1 if failed else 0)


def _run(measure: Measure, bench: Bench) -> list[Row]:
    with tempfile.TemporaryDirectory(
        prefix=f"{measure.name}-", dir=bench.directory, ignore_cleanup_errors=True
    ) as fresh:
        gc.collect()
        return list(asyncio.run(_measured(measure, replace(bench, directory=Path(fresh)))))


async def _measured(measure: Measure, bench: Bench) -> list[Row]:
    return list(await measure.run(bench))


if __name__ == "__main__":
    main()
