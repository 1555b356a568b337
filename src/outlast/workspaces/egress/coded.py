"""Looks through bodies that a host sends in a coding, although it was asked for none.

They are handed on as they are, byte for byte: what is inside is only looked at. Where a secret stands there, the answer
ends before it does. What may be the beginning of one is held until more has come.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

CODINGS: Final = frozenset({b"gzip", b"x-gzip", b"deflate"})
_ANY_HEADER: Final = 47
_NO_HEADER: Final = -15
_PIECE: Final = 1 << 20
_LARGEST: Final = 32 << 20
"""Bytes that one piece may become: all of it is looked through before anything else is done."""
_MOST_HELD: Final = 1 << 20
_MAGIC: Final = b"\x1f\x8b"


class Unseen(Exception):
    """The body holds what must not come back, or cannot be looked through."""


class Coded:
    """The body of one answer. `forms` are what must not be in it."""

    def __init__(self, coding: bytes, forms: Sequence[bytes]) -> None:
        self._coding = coding
        self._forms = forms
        self._longest = max(map(len, forms))
        self._inflate: zlib._Decompress | None = None  # pyright: ignore[reportPrivateUsage] - it has no other name
        self._tail = b""
        self._held = b""
        self._ended = False
        self._between = b""

    def body(self, data: bytes) -> bytes:
        """Those of the next bytes, and of those that were held, that may go on.

        Raises:
            Unseen
        """
        try:
            for piece in self._decoded(data):
                seen = self._tail + piece
                if any(form in seen for form in self._forms):
                    raise Unseen("it holds the credential that was added")
                self._tail = seen[-self._longest + 1 :] if self._longest > 1 else b""
        except zlib.error as error:
            raise Unseen("it cannot be read") from error
        self._held += data
        if self._is_open():
            if len(self._held) > _MOST_HELD:
                raise Unseen("it goes on too long with what may be a credential")
            return b""
        return self.rest()

    def rest(self) -> bytes:
        """What is still held when the body has ended."""
        rest, self._held = self._held, b""
        return rest

    def _is_open(self) -> bool:
        """Whether what came last may be the beginning of a secret."""
        sizes = range(1, len(self._tail) + 1)
        return any(form.startswith(self._tail[-size:]) for size in sizes for form in self._forms)

    def _decoded(self, data: bytes) -> Iterator[bytes]:
        became = 0
        while data:
            if self._inflate is None:
                if self._ended:
                    # Another may follow, behind padding. What is neither is seen as it is.
                    data = self._between = (self._between + data).lstrip(b"\0")
                    if len(data) < len(_MAGIC) and _MAGIC.startswith(data):
                        return
                    self._between = b""
                    if not data.startswith(_MAGIC):
                        yield data
                        return
                self._inflate = zlib.decompressobj(self._header(data))
            piece = self._inflate.decompress(data, _PIECE)
            became += len(piece)
            if became > _LARGEST:
                raise Unseen("it becomes too much")
            yield piece
            data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                data, self._inflate, self._ended = self._inflate.unused_data, None, True

    def _header(self, data: bytes) -> int:
        raw = self._coding == b"deflate" and (data[0] & 0x0F != zlib.DEFLATED or not data.startswith(b"x"))
        return _NO_HEADER if raw else _ANY_HEADER
