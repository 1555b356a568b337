"""The id of this machine, for sessions whose files are here only."""

from pathlib import Path

from outlast.errors import WorldUnavailable
from outlast.folders import make_private
from outlast.ids import new_id


def machine_id(data: Path) -> str:
    """A name for this machine that stays: kept in the data directory, made at the first call.

    Raises:
        WorldUnavailable: the data directory cannot be written.
    """
    file = data / "machine-id"
    try:
        make_private(data)
        known = _read(file)
        if not known:
            # Whole or not at all: of several that begin at once, each reads what the first one wrote.
            fresh = data / f".machine-id-{new_id('new')}"
            fresh.write_text(new_id("m"), encoding="ascii")
            try:
                file.hardlink_to(fresh)
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
            known = _read(file)
    except (OSError, UnicodeDecodeError) as error:
        raise WorldUnavailable(world=f"The data directory {data}", reason=str(error)) from error
    if not known:
        raise WorldUnavailable(world=f"The data directory {data}", reason=f"{file} is empty; remove it")
    return known


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
