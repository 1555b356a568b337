"""A whole session as an archive that any program can read: a tar of JSON and of blobs, in pieces as they are read.

    outlast.json             which session it is, and which version of this layout (`Cover`)
    commits/00000001.ndjson  commits from that number on, one a line: {"header": …, "records": […]}
    inputs/00000001.json     what waits in its inbox, in order: {"id": …, "refs": […], "input": …}
    blobs/NAME               what `refs` of headers and inputs name, and payloads as `ref`: the plain bytes
    missing.ndjson           blobs that are named and whose bytes are gone: {"ref": …}

Of a fork the commits are those of its whole past. Text of open calls that no commit holds is not part of it. What comes
while it is read is not either: it ends at the commit that was the newest when it began.
"""

import tarfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from outlast.clock import Clock
from outlast.errors import BlobUnknown
from outlast.squeezing import unsqueeze
from outlast.world import Commit, Input, SessionHead, World

VERSION: Final = 1
_PAGE: Final = 50
_PIECE: Final = 1024 * 1024


class Cover(msgspec.Struct, frozen=True):
    """What stands in `outlast.json`."""

    version: int
    session: str
    tenant: str
    agent: str
    placement: str
    labels: dict[str, str]
    seq: int
    """Number of the last commit that is in it."""
    exported_at_s: float


async def export(world: World, session: str, clock: Clock) -> AsyncGenerator[bytes]:
    """The archive of a session, in pieces of at most 1 MiB. Holds a page of commits or one blob at a time.

    Raises:
        SessionUnknown, SessionErased, WorldUnavailable
    """
    head, now_s = await world.get(session), clock.now()
    async with aclosing(_files(world, head, now_s)) as files:
        async for name, data in files:
            for piece in _file(name, data, now_s):
                yield piece
    yield bytes(2 * tarfile.BLOCKSIZE)


async def _files(world: World, head: SessionHead, now_s: float) -> AsyncGenerator[tuple[str, bytes]]:
    """The files of the archive, one after the other."""
    waiting = await world.inputs(head.session)
    yield "outlast.json", _json(_cover(head, world.tenant, now_s))
    names: dict[str, None] = {}
    after = 0
    while after < head.seq:
        commits = await world.commits(head.session, after, min(_PAGE, head.seq - after))
        names |= dict.fromkeys(ref for commit in commits for ref in commit.header.refs)
        yield f"commits/{after + 1:08}.ndjson", b"".join(_line(commit) for commit in commits)
        after = commits[-1].header.seq
    names |= dict.fromkeys(ref for one in waiting for ref in one.refs)
    for number, one in enumerate(waiting, 1):
        yield f"inputs/{number:08}.json", _input(one)
    missing: list[str] = []
    for name in names:
        data = await _blob(world, head.session, name)
        if data is None:
            missing.append(name)
        else:
            yield f"blobs/{name}", data
    yield "missing.ndjson", b"".join(_json({"ref": name}) + b"\n" for name in missing)


async def _blob(world: World, session: str, name: str) -> bytes | None:
    try:
        return unsqueeze((await world.get_many(session, [name]))[name])
    except BlobUnknown:
        return None


def _cover(head: SessionHead, tenant: str, now_s: float) -> Cover:
    return Cover(
        VERSION, head.session, tenant, head.agent, head.placement, dict(head.labels), head.seq, now_s
    )


def _line(commit: Commit) -> bytes:
    records = msgspec.Raw(unsqueeze(commit.body))
    return _json({"header": commit.header, "records": records}) + b"\n"


def _input(one: Input) -> bytes:
    value: dict[str, Any] = {"id": one.id, "refs": one.refs, "input": msgspec.Raw(unsqueeze(one.body))}
    return _json(value)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _file(name: str, data: bytes, now_s: float) -> Iterator[bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o600, int(now_s)
    yield info.tobuf(tarfile.PAX_FORMAT)
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]
    if rest := -len(data) % tarfile.BLOCKSIZE:
        yield bytes(rest)
