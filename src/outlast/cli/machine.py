"""The id of this machine, for sessions whose files are here only."""

from pathlib import Path

from outlast.ids import new_id


def machine_id(data: Path) -> str:
    """A name for this machine that stays: kept in the data directory, made at the first call."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = data / "machine-id"
    try:
        with file.open("x", encoding="ascii") as new:
            new.write(new_id("m"))
    except FileExistsError:
        pass
    return file.read_text(encoding="ascii").strip()
