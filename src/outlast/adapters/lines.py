"""Places in the files of lines that programs keep of their sessions, which may be long."""

from typing import Final

from outlast.beneath import Beneath

_PIECE: Final = 1024 * 1024


def end_of(home: Beneath, name: str, count: int) -> int:
    """Where the first `count` lines of a file end, in bytes; its own end if it has fewer, 0 if it is not there.

    It is read piece by piece: a conversation of months may have hundreds of megabytes.
    """
    position = 0
    try:
        while count > 0 and (piece := home.read(name, offset=position, most=_PIECE)):
            ends = piece.count(b"\n")
            if ends >= count:
                at = -1
                for _ in range(count):
                    at = piece.index(b"\n", at + 1)
                return position + at + 1
            position, count = position + len(piece), count - ends
    except FileNotFoundError:  # nothing is written yet
        return 0
    return position
