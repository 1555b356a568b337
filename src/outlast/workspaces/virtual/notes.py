"""What a command's writer should know where the shell does otherwise than bash, and does not say so."""

import re
from typing import Final

RANGE_LIMIT: Final = 10_000
"""Elements of a range in braces; one of more is left as it stands."""
_LIMITED: Final = re.compile(
    r"output (?:may be )?truncated|exceeds limit|limit \([\d,]+[^)]*\) (?:reached|exceeded)"
)
_RANGE: Final = re.compile(r"\{(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?\}")
_ENDLESS: Final = re.compile(r"/dev/(?:zero|(u?random))\b")
_MUCH: Final = re.compile(r"\d[MG]|\d{7}")
_MORE: Final = re.compile(r"\d[kKMG]|\d{4}")
"""A number that needs more than 8192 random bytes, if not all that are read are used."""

CUT: Final = (
    "a command reached a limit of this shell (see above), and what came out of it is not whole: do not rely on what "
    "was made from it. Work on less at a time."
)
LOST: Final = (
    "more was written than this shell passes on (10 MB). Write long output to a file and read parts of it."
)
ENDLESS: Final = "/dev/zero ends after 1 MB here."
RANDOM: Final = "/dev/random and /dev/urandom end after 8192 bytes here, but for dd."


def notes(text: str, said: str, *, lost: bool) -> tuple[list[str], bool]:
    """What to tell of a command, and whether its result must not count as success.

    Args:
        text: the command.
        said: what it wrote to standard error.
        lost: output was dropped.
    """
    found: list[str] = []
    cut = _LIMITED.search(said) is not None
    if cut:
        found.append(CUT)
    if lost:
        found.append(LOST)
    if any(_elements(*match.groups()) > RANGE_LIMIT for match in _RANGE.finditer(text)):
        cut = True
        found.append(
            f"a range in braces of more than {RANGE_LIMIT:,} elements is left as it stands here: use `seq` or a loop."
        )
    sources = {match[1] is None for match in _ENDLESS.finditer(text)}
    if True in sources and _MUCH.search(text) is not None:
        found.append(ENDLESS)
    if False in sources and _MORE.search(text) is not None:
        found.append(RANDOM)
    return found, cut


def _elements(first: str, last: str, step: str | None) -> int:
    return abs(int(last) - int(first)) // (abs(int(step or 1)) or 1) + 1
