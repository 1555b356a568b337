"""Frames into packs, and back."""

import sys
from collections.abc import Callable
from typing import Final, TypeAlias

from outlast.workspaces.drive.format import MAGIC, NOWHERE, Place, broken

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Namer: TypeAlias = Callable[[bytes], str]
"""The name of a pack: a hash of its bytes, as whoever keeps it names it."""
PackSink: TypeAlias = Callable[[str, bytes], None]
"""Takes a pack that is complete. May wait until there is room for more."""
PACK_BYTES: Final = 4 << 20
"""A pack is closed when it has so many. The largest has a piece more."""
_LEVEL: Final = 3
_AS_IS, _ZSTD = b"\0", b"\1"
_WORTH: Final = 0.97
"""What compresses to more than this share of it is stored as it is."""
_TRIED: Final = 64
"""Fewer bytes than this are not worth a try."""


class PackWriter:
    """Collects frames into packs. Not for several threads at once."""

    def __init__(self, name: Namer, sink: PackSink, salt: Callable[[], bytes] = bytes) -> None:
        """Collect frames.

        Args:
            name: names a complete pack.
            sink: takes it.
            salt: what stands at the head of each, before the first frame; nobody reads it.
        """
        self._name = name
        self._sink = sink
        self._salt = salt
        self._compressor = zstd.ZstdCompressor(_LEVEL)
        self._buffer = bytearray(MAGIC + salt())
        self._open: list[Place] = []

    def add(self, data: bytes | memoryview) -> Place:
        """Write one frame; its place has its pack's name when that is closed."""
        if not data:
            return NOWHERE
        packed = self._compressed(data)
        if packed is None:
            return self.add_frame(_AS_IS, data)
        return self.add_frame(_ZSTD, packed)

    def add_frame(self, *parts: bytes | memoryview) -> Place:
        """Write one frame that is packed already."""
        start = len(self._buffer)
        for part in parts:
            self._buffer += part
        place = Place("", start, len(self._buffer) - start)
        self._open.append(place)
        # Closed after, never before: what was encoded to lie beside its parts must come to lie there.
        if len(self._buffer) >= PACK_BYTES:
            self.close()
        return place

    def close(self) -> None:
        """Hand over the pack that is being written, if anything is in it."""
        if not self._open:
            return
        data = bytes(self._buffer)
        name = self._name(data)
        for place in self._open:
            place.pack = name
        self._open = []
        self._buffer = bytearray(MAGIC + self._salt())
        self._sink(name, data)

    def _compressed(self, data: bytes | memoryview) -> bytes | None:
        if len(data) < _TRIED:
            return None
        packed = self._compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
        return packed if len(packed) < len(data) * _WORTH else None


def unframe(pack: bytes, place: Place, most: int) -> bytes:
    """What lies at `place` of its pack.

    Args:
        pack: all of it.
        place: in it.
        most: bytes that it may have.

    Raises:
        PacksBroken: nothing of that kind is there.
    """
    end = place.offset + place.length
    if place.offset < len(MAGIC) or place.length < 2 or end > len(pack) or not pack.startswith(MAGIC):
        raise broken("a place lies outside its pack")
    codec, payload = pack[place.offset], memoryview(pack)[place.offset + 1 : end]
    if codec == _AS_IS[0]:
        data = bytes(payload)
    elif codec == _ZSTD[0]:
        data = _unpacked(payload, most)
    else:
        raise broken(f"a frame is packed in a way that is not known ({codec})")
    if len(data) > most:
        raise broken("a frame is larger than what is to be in it")
    return data


def _unpacked(payload: memoryview, most: int) -> bytes:
    context = zstd.ZstdDecompressor()
    try:
        data = context.decompress(payload, most + 1)
    except zstd.ZstdError as error:
        raise broken(f"a frame does not unpack ({error})") from None
    if len(data) <= most and (not context.eof or context.unused_data):
        raise broken("a frame is cut or has more behind it")
    return data
