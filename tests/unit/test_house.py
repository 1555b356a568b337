"""What the house promises about itself: what is named is documented, and what is documented exists."""

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from outlast import errors
from outlast.cli.exits import Exit
from outlast.cli.main import main
from outlast.gate import Point
from outlast.records.events import EventKind
from outlast.settings import SETTINGS, Settings

ROOT = Path(__file__).parents[2]
OWNERS = {
    "worker.py": "`work` cancels and awaits what hears, watches and advances, in its `finally`",
    "engine/batch.py": "`drain` awaits the flight, which ends with the batches that were put",
    "engine/runs.py": "`stop` cancels and awaits the tools that run, at the end of each attempt",
    "engine/effects.py": "whoever runs the function awaits it, or gives it up when it does not end even if cancelled",
    "engine/harness.py": "the context of the process cancels and awaits it",
    "engine/peers.py": "`Worker.work` cancels and awaits what watches, in its `finally`",
    "engine/recover.py": "all are awaited, and cancelled when one fails",
    "engine/beside.py": "`going_on` cancels and awaits it, in its `finally`",
    "engine/turn.py": "`_advance` cancels and awaits both, in its `finally`",
    "worlds/postgres/hints.py": "`close` waits for what is being sent, and cancels it when that takes too long",
    "worlds/postgres/poll.py": "`close` cancels and awaits it",
    "engine/writer.py": "`flush` waits for what is being shown, and `lose` cancels it",
}
"""Who ends the tasks that are started outside a task group: whoever starts another says so here."""
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _names_in_first_column(page: str) -> set[str]:
    text = (ROOT / "docs" / page).read_text()
    return set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, errors.OutlastError)


def _examples() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, code in enumerate(PYTHON.findall(page.read_text()), 1):
            yield f"{page.relative_to(ROOT)}:{number}", code


def test_every_point_is_documented_and_every_documented_point_exists() -> None:
    assert _names_in_first_column("internals/points.md") == {point.value for point in Point}


def test_every_error_is_documented_and_every_documented_error_exists() -> None:
    existing = {name for name, value in vars(errors).items() if _is_error(value)} - {"OutlastError"}
    assert _names_in_first_column("reference/errors.md") == existing


def test_every_setting_is_documented_and_every_documented_setting_exists() -> None:
    existing = {field.name for field in dataclasses.fields(Settings)}
    assert _names_in_first_column("reference/settings.md") == existing == set(SETTINGS)


def test_every_kind_of_event_is_documented_and_every_documented_kind_exists() -> None:
    assert _names_in_first_column("reference/events.md") == set(get_args(EventKind))


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    assert _names_in_first_column("reference/commands.md") == set(main.commands)


def test_every_exit_status_is_documented() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text()
    assert {int(status) for status in re.findall(r"^\| (\d+) ", text, re.MULTILINE)} == {*Exit, 130}


def test_a_module_fits_one_reading() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / "src").rglob("*.py")}
    too_long = {str(path.relative_to(ROOT)): lines for path, lines in lengths.items() if lines > 400}
    assert not too_long


def test_the_lock_names_no_host() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in _examples()])
def test_python_in_the_docs_is_python(code: str) -> None:
    compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_task_outside_a_task_group_has_an_owner() -> None:
    source = ROOT / "src/outlast"
    loose = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"(?<!tasks)\.create_task\(", path.read_text())
    }
    assert loose == set(OWNERS)


def test_the_house_of_the_contributors_is_drawn_as_it_stands() -> None:
    drawn = set(re.findall(r"\b[a-z_]+(?:\.py|/)", (ROOT / "AGENTS.md").read_text().split("```")[1]))
    package = ROOT / "src" / "outlast"
    stands = {f"{path.name}/" if path.is_dir() else path.name for path in package.iterdir()}
    assert {name for name in stands if not name.startswith(("_", "py."))} <= drawn
