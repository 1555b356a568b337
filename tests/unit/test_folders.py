"""Directories that are nobody else's."""

from pathlib import Path
from stat import S_IMODE

from outlast.folders import make_private


def mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


def test_every_directory_that_is_made_is_for_this_user_only(tmp_path: Path) -> None:
    make_private(tmp_path / "data/outlast/homes/one")
    made = [
        tmp_path / name for name in ("data", "data/outlast", "data/outlast/homes", "data/outlast/homes/one")
    ]
    assert [mode(path) for path in made] == [0o700] * 4


def test_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    make_private(tmp_path / "shared")
    make_private(tmp_path / "shared/own")
    make_private(tmp_path / "shared/own")
    assert (mode(tmp_path / "shared"), mode(tmp_path / "shared/own")) == (0o755, 0o700)
