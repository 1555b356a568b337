"""Bytes as they are stored: compressed (Zstandard, RFC 8878) when that saves some; the magic number tells which."""

import sys
import threading
from typing import Final

from outlast.errors import BlobBroken

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_WORTH: Final = 512
"""Bytes below which compressing costs more time, in writing and in every reading, than its bytes are worth."""
_LEVEL: Final = 3


class _Compressor:
    """One Zstandard context for all: making one costs more than compressing a usual commit. Any thread."""

    def __init__(self) -> None:
        self._context = zstd.ZstdCompressor(_LEVEL)
        self._lock = threading.Lock()

    def compress(self, data: bytes) -> bytes:
        """One frame."""
        with self._lock:
            # The size beforehand: the frame tells it to its reader, and short texts get tables of their size.
            self._context.set_pledged_input_size(len(data))
            return self._context.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


_compressor: Final = _Compressor()


def squeeze(data: bytes) -> bytes:
    """`data`, compressed where that saves bytes."""
    if len(data) < _WORTH and not data.startswith(_MAGIC):
        return data
    small = _compressor.compress(data)
    return small if len(small) < len(data) or data.startswith(_MAGIC) else data


def unsqueeze(data: bytes) -> bytes:
    """What `squeeze` was given.

    Raises:
        BlobBroken: it was not made by `squeeze`, or is torn.
    """
    try:
        return zstd.decompress(data) if data.startswith(_MAGIC) else data
    except zstd.ZstdError as error:
        raise BlobBroken(reason=str(error)) from None
