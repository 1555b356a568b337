"""Event streams (WHATWG HTML, section 9.2) cut into frames, each with its own bytes to be passed on as they came.

Lines end in LF or CRLF. A lone CR, which the standard allows and no provider uses, is refused: a client might see a
frame end where we see none, and act on a block that nobody has written down.
"""

import re
from dataclasses import dataclass
from typing import Final

_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_BYTE_ORDER: Final = b"\xef\xbb\xbf"
_LONE_CR: Final = re.compile(rb"\r(?!\n)")


class Malformed(Exception):
    """An answer that cannot be one."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream."""

    raw: bytes
    """Its bytes as they came, the blank line included."""
    event: str
    """The event's name; empty when the frame gives none."""
    data: bytes | None
    """None of a frame that is a comment only."""


class Cutter:
    """Cuts bytes, however they are chunked, into the same frames.

    `limit` bounds the bytes of one frame.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._seen = 0
        self._first = True

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes.

        Raises:
            Malformed: a frame is too long, or is no text of the format.
        """
        rest = self._rest
        rest += chunk
        frames: list[Frame] = []
        start = 0
        # A blank line may have begun up to three bytes before the new ones.
        for blank in _BLANK_LINE.finditer(rest, max(0, self._seen - 3)):
            frames.append(_frame(bytes(rest[start : blank.end()]), first=self._first))
            start, self._first = blank.end(), False
        del rest[:start]
        self._seen = len(rest)
        if len(rest) > self._limit:
            reason = f"a frame of more than {self._limit:,} bytes"
            raise Malformed(reason)
        return frames


def _frame(raw: bytes, *, first: bool) -> Frame:
    if b"\r" in raw and _LONE_CR.search(raw):
        reason = "a line of the event stream ends in a lone CR"
        raise Malformed(reason)
    event, data = "", list[bytes]()
    # A client leaves out the mark of a byte order at the very beginning, and goes by what is behind it.
    for line in (raw.removeprefix(_BYTE_ORDER) if first else raw).splitlines():
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = _text(value)
    return Frame(raw, event, b"\n".join(data) if data else None)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        reason = "the name of an event is no UTF-8"
        raise Malformed(reason) from None


def frame(event: str, data: bytes) -> bytes:
    """The bytes of one event with one line of data."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
