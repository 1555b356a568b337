"""What can be adopted of harnesses; most keep their conversations as files of JSON lines (`outlast.adopting`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from outlast.errors import BadInput


@dataclass(frozen=True, slots=True)
class Kind:
    """The files of one harness."""

    harness: str
    """As people call it."""
    where: str
    """A sentence: where it keeps them."""
    parse: Callable[[Sequence[str]], Sequence[Mapping[str, Any]]]
    """The records of lines, up to the first line that is none."""
    word: str = "transcript"
    """What it calls such a file."""

    def refuse(self, path: Path, why: str) -> BadInput:
        """The error for what is no file of this kind."""
        return BadInput(detail=f"{path} is no {self.word} of {self.harness}: {why}. {self.where}")

    def lines(self, path: Path) -> tuple[list[str], list[str]]:
        """The whole lines of a file, and what is to be said of the rest.

        Raises:
            BadInput: it cannot be read, is of another kind, or is damaged before its end.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise self.refuse(path, "it is no text") from None
        except OSError as error:
            raise BadInput(detail=f"{path} cannot be read: {error.strerror}.") from error
        lines = text.split("\n")
        end = lines.pop()
        whole = len(self.parse(lines))
        if whole < len(lines):
            if whole == 0:
                raise self.refuse(path, "its first line is no JSON object")
            hint = "What follows it cannot be told from what never was. Mend or remove the line, in a copy."
            raise BadInput(detail=f"{path} is damaged in line {whole + 1} of {len(lines)}. {hint}")
        if end and self.parse([end]):
            return [*lines, end], []
        torn = [f"its last line was cut off in the middle and is left out ({len(end):,} characters)"]
        return lines, torn if end else []


def directory_of(transcript: object, cwd: str) -> str:
    """The directory that a conversation works in, where it is here.

    Args:
        transcript: the conversation, as its user names it.

    Raises:
        BadInput: it is not.
    """
    if not (Path(cwd).is_absolute() and Path(cwd).is_dir()):
        hint = "The conversation is about the files there. Put them back at that path, or adopt it where they are."
        raise BadInput(detail=f"{transcript} works in {cwd}, which is no directory of this machine. {hint}")
    return str(Path(cwd).resolve())


def still_open(harness: str, session: str, whose: str) -> BadInput:
    """The error for a conversation that a program goes on with.

    Args:
        whose: what is known of the program.
    """
    hint = "End it first: two would go on with one conversation, each without the other's half."
    return BadInput(detail=f"{harness} still has the session {session} open ({whose}). {hint}")


def is_uuid(text: str) -> bool:
    """Whether it is the usual form of a UUID."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
