"""A tree as a tar archive (POSIX.1-2001, pax), written as it is read."""

import tarfile
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from outlast.drive import Entry
from outlast.workspaces.drive import Drive

HELD_BYTES: Final = 8 * 1024 * 1024
"""Of a file that are held in memory; a larger one goes through a file of its own."""
TYPES: Final = {"file": tarfile.REGTYPE, "dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


async def write_tar(file: IO[bytes], drive: Drive, root: str, under: str = "") -> int:
    """Write all that is in a tree, or below a path of it; returns how many entries. Names are those of the tree.

    Raises:
        FileMissing: nothing is at `under`.
        PacksBroken, PacksGone
    """
    count = 0
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        async for entry in drive.entries(root, under):
            count += 1
            if entry.kind != "file":
                archive.addfile(_header(entry))
                continue
            with SpooledTemporaryFile(HELD_BYTES) as content:
                async for piece in drive.read_pieces(root, entry.path):
                    content.write(piece)
                content.seek(0)
                archive.addfile(_header(entry), content)
    file.flush()
    return count


def _header(entry: Entry) -> tarfile.TarInfo:
    header = tarfile.TarInfo(entry.path)
    header.type = TYPES[entry.kind]
    header.mode = entry.mode
    header.size = entry.size
    header.mtime = entry.mtime_ns / 1e9
    header.linkname = entry.target
    return header
