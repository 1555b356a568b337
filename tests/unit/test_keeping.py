"""What a box is known to hold: which roots its files come from, and which attempts have worked on them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from outlast.behind import Holds
from outlast.workspaces.boxed.ground import Ground
from outlast.workspaces.boxed.keeping import Keep, KeepHere, KeepThere, marked_roots, noted_roots, remember


class Box:
    """As far as notes are kept in it."""

    def __init__(self, noted: str = "") -> None:
        self.noted = noted

    async def note(self, text: str) -> None:
        self.noted = text


class Tree:
    """The files at a distance, of which nothing is asked here."""

    def tree(self, cwd: str) -> "Tree":
        return self


def ground_at(directory: Path) -> Ground:
    (directory / "files").mkdir(parents=True)
    return Ground(directory, directory / "home", (), None)


def here(directory: Path) -> Keep:
    return KeepHere(ground_at(directory), cast("Any", None))


def there(box: Box, directory: Path) -> KeepThere:
    return KeepThere(
        cast("Any", box), cast("Any", Tree()), cast("Any", None), directory / "known", "/workspace"
    )


async def test_a_place_holds_the_attempts_that_worked_in_it(tmp_path: Path) -> None:
    box = Box()
    for keep in (here(tmp_path / "here"), there(box, tmp_path)):
        assert isinstance(keep, Holds)
        for fence in (3, 5, 5, 12):
            await keep.hold(fence)
        assert [fence for fence in range(20) if keep.holds(fence)] == [3, 5, 12]
    assert box.noted == "@3\n@5\n@12\n"
    another = there(box, tmp_path)
    assert another.holds(5)
    assert not another.holds(1)


async def test_notes_of_attempts_are_no_roots(tmp_path: Path) -> None:
    box = Box("root-1\nroot-2\n@3\n")
    assert noted_roots(cast("Any", box)) == ["root-1", "root-2"]
    await there(box, tmp_path).hold(4)
    assert box.noted == "root-1\nroot-2\n@3\n@4\n"


async def test_files_whose_laying_out_was_cut_off_stand_for_nothing(tmp_path: Path) -> None:
    ground = ground_at(tmp_path / "s")
    keep = KeepHere(ground, cast("Any", None))
    remember(ground.mark, ["root-1"])
    await keep.hold(3)
    lay_out: Callable[[str], Awaitable[None]] = keep.lay_out
    with pytest.raises(AttributeError):  # there is no drive to bring anything back from
        await lay_out("root-2")
    assert marked_roots(ground.mark) == []
    assert not keep.holds(3)
