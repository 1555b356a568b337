"""Claude Code's files of a session, put where it looks for them: as they were mirrored."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from outlast.adapters.claude_code.transcript import materialised
from outlast.beneath import Beneath

BASE64: Final = "#base64"
"""Ends the name, in the mirror, of a file that is no text; no name of Claude Code's own holds a `#`."""


def renamed(files: Mapping[str, Sequence[str]], path: str, uuid: str) -> Mapping[str, str]:
    """New names of files by their old ones, where the transcript `path` has another: a fork may work elsewhere."""
    place = f".claude/projects/*/{uuid}.jsonl"
    old = next((name for name in files if fnmatchcase(name, place)), path)
    if path in files or old == path:
        return {}
    stem, there = old.removesuffix(".jsonl"), path.removesuffix(".jsonl")
    return {name: there + name.removeprefix(stem) for name in files if name.startswith(stem)}


def write(home: Path, path: str, files: Mapping[str, Sequence[str]]) -> None:
    """Put files below HOME, and nothing else of an earlier attempt beside the transcript `path`."""
    below = Beneath(home)
    below.remove(path)
    below.remove(path.removesuffix(".jsonl"))  # its sub-agents and large results
    for name, lines in files.items():
        if name.endswith(BASE64):
            below.write(name.removesuffix(BASE64), b64decode("".join(lines)))
            continue
        whole = [f"{line}\n" for line in materialised(lines)] if name.endswith(".jsonl") else lines
        below.write(name, "".join(whole).encode())


def bring(home: Path, path: str, uuid: str, mirrored: Mapping[str, Sequence[str]]) -> bool:
    """Let the transcript be there if the log has it. Whether it is.

    One that is there is newer than the mirror, if it is not the same. That of a fork is not, at first.
    """
    if (home / path).exists():
        return True
    files = {name: lines for name, lines in mirrored.items() if lines}
    names = renamed(files, path, uuid)
    files = {names.get(name, name): lines for name, lines in files.items()}
    if path in files:
        write(home, path, files)
    return path in files
