"""Frames between a worker and the supervisor inside a box, over any stream of bytes.

A frame is four bytes of length (big-endian) and a map. Maps, lists, whole numbers, texts and bytes, each with its
length in front: what comes in is bounded before it is looked at, and bytes cost nothing. (Not JSON: loading that module
would double the start of the supervisor. Not `marshal`: what a box says is hostile.)

    number  i 17 ;        bytes  b 3 : abc        text  s 3 : abc        list  l … e        map  d name value … e

The worker asks, `{"id", "op", …}`, any number at a time; each is answered once, in any order, `{"id", …}` or
`{"id", "error", "kind"}`. An answer for which there is nothing yet to say is held back (`wait_ms` at most). The first
asking of a stream is `hello`; what may be asked then stands in `docs/internals/boxes.md`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
FRAME_LIMIT = 4 * 1024 * 1024
PIECE = 256 * 1024
"""Bytes of content in one frame."""
_DEPTH = 6
_DIGITS = 20


class WireError(Exception):
    """What came is no frame: the stream is given up."""


def pack(message: dict[str, object]) -> bytes:
    """One frame.

    Raises:
        WireError: it would be larger than a frame may be, or holds what cannot be sent.
    """
    out = bytearray(4)
    _put(out, message)
    size = len(out) - 4
    if size > FRAME_LIMIT:
        raise WireError(f"{size} bytes are too many for one frame (at most {FRAME_LIMIT})")
    out[:4] = size.to_bytes(4, "big")
    return bytes(out)


class Unpacker:
    """Frames out of pieces of a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self._buffer += data

    def next(self) -> dict[str, object] | None:
        """The next frame that is complete.

        Raises:
            WireError: what came is no frame.
        """
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        size = int.from_bytes(buffer[:4], "big")
        if size > FRAME_LIMIT:
            raise WireError(f"a frame of {size} bytes (at most {FRAME_LIMIT})")
        if len(buffer) < 4 + size:
            return None
        value, at = _get(bytes(buffer[4 : 4 + size]), 0, 0)
        if at != size or not isinstance(value, dict):
            raise WireError("a frame that is no map")
        del buffer[: 4 + size]
        return value  # pyright: ignore[reportUnknownVariableType] - of what `_get` makes

    def rest(self) -> bytes:
        """What came behind the last frame: the stream is something else from here on."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest


def _put(out: bytearray, value: Any) -> None:
    if isinstance(value, str):
        _put_bytes(out, b"s", value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _put_bytes(out, b"b", value)  # pyright: ignore[reportUnknownArgumentType] - a view of bytes, as all views
    elif isinstance(value, int) and not isinstance(value, bool):
        out += b"i%d;" % value
    elif isinstance(value, dict):
        items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType] - judged one by one
        out += b"d"
        for name, one in items.items():
            _put_bytes(out, b"s", name.encode("utf-8", "surrogateescape"))
            _put(out, one)
        out += b"e"
    elif isinstance(value, (list, tuple)):
        out += b"l"
        for one in value:  # pyright: ignore[reportUnknownVariableType] - judged one by one
            _put(out, one)
        out += b"e"
    else:
        raise WireError(f"{type(value).__name__} cannot be sent")


def _put_bytes(out: bytearray, kind: bytes, data: bytes | bytearray | memoryview) -> None:
    out += b"%b%d:" % (kind, len(data))
    out += data


def _get(data: bytes, at: int, depth: int) -> tuple[object, int]:
    kind = data[at : at + 1]
    if kind == b"i":
        return _number(data, at + 1, b";")
    if kind in {b"b", b"s"}:
        size, at = _number(data, at + 1, b":")
        if size < 0 or at + size > len(data):
            raise WireError("a length that leads out of the frame")
        piece = data[at : at + size]
        return (piece if kind == b"b" else piece.decode("utf-8", "surrogateescape")), at + size
    if kind not in {b"l", b"d"} or depth >= _DEPTH:
        raise WireError(f"nothing begins with {kind!r} here")
    return _get_many(data, at + 1, depth, kind == b"d")


def _get_many(data: bytes, at: int, depth: int, named: bool) -> tuple[object, int]:  # noqa: FBT001
    items: list[object] = []
    while data[at : at + 1] != b"e":
        one, at = _get(data, at, depth + 1)
        items.append(one)
    if not named:
        return items, at + 1
    names, values = items[::2], items[1::2]
    if len(names) != len(values) or not all(isinstance(name, str) for name in names):
        raise WireError("a map whose names are no texts")
    return dict(zip(names, values)), at + 1


def _number(data: bytes, at: int, end: bytes) -> tuple[int, int]:
    stop = data.find(end, at, at + _DIGITS + 1)
    digits = data[at:stop] if stop >= 0 else b""
    if not digits.removeprefix(b"-").isdigit():
        raise WireError("a number that is none")
    return int(digits), stop + 1
