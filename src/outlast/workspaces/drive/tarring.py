"""A tree as a tar archive, in the pax format: any name, any size, times to the nanosecond."""

import tarfile
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from outlast.workspaces.drive.format import DIR, FILE, LINK, Item
from outlast.workspaces.drive.paths import decode_text
from outlast.workspaces.drive.tree import Drive

_TYPES: Final = {FILE: tarfile.REGTYPE, LINK: tarfile.SYMTYPE, DIR: tarfile.DIRTYPE}
_SECOND_NS: Final = 1_000_000_000


async def to_tar(drive: Drive, root: str, under: str = "") -> AsyncGenerator[bytes]:
    """The archive of a tree, or of what is below a path of it, in pieces of at most 1 MiB. Names are those of the tree.

    Raises:
        FileMissing: nothing is at `under`.
        PacksBroken, PacksGone
    """
    item, path = await drive.walker.get(root, under)
    if item.kind != DIR:
        async for piece in _one(drive, path, item):
            yield piece
    else:
        async for at, below in drive.walker.below(item, path):
            async for piece in _one(drive, at, below):
                yield piece
    yield bytes(2 * tarfile.BLOCKSIZE)


async def _one(drive: Drive, path: bytes, item: Item) -> AsyncIterator[bytes]:
    yield _header(path, item)
    if item.kind == FILE:
        async for piece in drive.reader.content(item):
            yield piece
        if rest := -item.size % tarfile.BLOCKSIZE:
            yield bytes(rest)


def _header(path: bytes, item: Item) -> bytes:
    info = tarfile.TarInfo(decode_text(path))
    info.type = _TYPES[item.kind]
    info.mode = 0o777 if item.kind == LINK else item.mode
    info.size = item.size if item.kind == FILE else 0
    seconds, rest = divmod(item.mtime_ns, _SECOND_NS)
    info.mtime = seconds
    if rest or not 0 <= seconds < 8**11:
        info.pax_headers = {"mtime": _decimal(item.mtime_ns)}
    if item.kind == LINK:
        info.linkname = decode_text(item.digest)
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _decimal(time_ns: int) -> str:
    seconds, rest = divmod(abs(time_ns), _SECOND_NS)
    return f"{'-' if time_ns < 0 else ''}{seconds}.{rest:09}"
