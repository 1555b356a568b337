"""What the cases are built of."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypedDict, Unpack

import anyio
from msgspec import structs

from outlast.errors import OutlastError
from outlast.world import (
    START,
    Claim,
    Commit,
    Cursor,
    Delta,
    Gap,
    Header,
    Input,
    Item,
    Lease,
    Takeover,
    WorkerOffer,
    WorkerRow,
    World,
)
from outlast.world.commit import make_commit

TAKEOVER: Final = Takeover(b"takeover", events=1, format=1)
READ_LIMIT_S: Final = 20.0


class Facts(TypedDict, total=False):
    """Fields of a header that differ from those of a plain commit."""

    format: int
    events: int
    sealed: int
    consumes: tuple[str, ...]
    refs: tuple[str, ...]
    turn_open: bool
    wake_at_s: float | None
    parked: bool
    status: str
    snapshot: bool
    release: bool


def commit(
    seq: int,
    fence: int,
    body: bytes = b"body",
    blobs: Mapping[str, bytes] | None = None,
    **facts: Unpack[Facts],
) -> Commit:
    """A commit, sealed; a turn stays open unless `facts` say otherwise."""
    plain = Header(seq=seq, fence=fence, format=1, events=1, turn_open=True)
    return make_commit(structs.replace(plain, **facts), body, dict(blobs or {}))


async def opened(world: World, session: str = "s", **facts: Unpack[Facts]) -> Commit:
    """Open a session of the agent `coder`, with a turn open."""
    first = commit(1, 0, b"first", **facts)
    assert await world.create(session, first, agent="coder")
    return first


def renew(world: World, worker: str, ttl_s: float = 60.0) -> None:
    """Let the leases of `worker` stand."""
    liveness = world.open_liveness()
    try:
        liveness.renew(WorkerRow(worker, f"holder of {worker}", 0.0), ttl_s)
    finally:
        liveness.close()


def retire(world: World, worker: str) -> None:
    """Let the leases of `worker` stand no longer."""
    liveness = world.open_liveness()
    try:
        liveness.retire(worker)
    finally:
        liveness.close()


def offer(worker: str = "w1", only: str | None = None, *, dead: Sequence[str] = ()) -> WorkerOffer:
    """The offer of a worker that can advance `coder` sessions anywhere."""
    return WorkerOffer(worker, frozenset({"coder"}), 1, dead=frozenset(dead), only=only)


async def find_claim(
    world: World,
    worker: str = "w1",
    only: str | None = None,
    *,
    dead: Sequence[str] = (),
    ttl_s: float = 60.0,
) -> Claim | None:
    """Renew and claim."""
    renew(world, worker, ttl_s)
    return await world.claim(offer(worker, only, dead=dead), TAKEOVER)


async def claimed(
    world: World,
    worker: str = "w1",
    only: str | None = None,
    *,
    dead: Sequence[str] = (),
    ttl_s: float = 60.0,
) -> Claim:
    """Renew and claim; there is something to claim."""
    claim = await find_claim(world, worker, only, dead=dead, ttl_s=ttl_s)
    assert claim is not None, "nothing was ready"
    return claim


async def held(world: World, session: str = "s", worker: str = "w1") -> Lease:
    """Open a session and claim it: its head is commit 2 under fence 1."""
    await opened(world, session)
    return (await claimed(world, worker, session)).lease


async def put(world: World, lease: Lease, new: Commit) -> Exception | None:
    """Write one commit and return what became of it."""
    [result] = await world.commit_many([(lease, new)])
    return result


async def landed(
    world: World, lease: Lease, seq: int, body: bytes = b"body", **facts: Unpack[Facts]
) -> Commit:
    """Write a commit that lands."""
    new = commit(seq, lease.fence, body, **facts)
    result = await put(world, lease, new)
    assert result is None, repr(result)
    return new


async def sent(world: World, session: str, input_id: str, body: bytes = b"hello") -> Input:
    """Put an input whose digest is its body."""
    return await world.put_input(session, Input(input_id, body.hex()[:20], body))


async def published(world: World, lease: Lease, after: int, *texts: bytes, first: int = 0) -> None:
    """Show deltas after commit `after`."""
    await world.publish(lease, after, first, [Delta(text) for text in texts])


async def read(world: World, session: str, count: int, after: Cursor = START) -> list[Item]:
    """The first `count` items behind `after`."""
    items: list[Item] = []
    with anyio.fail_after(READ_LIMIT_S):
        async with aclosing(world.follow(session, after)) as following:
            while len(items) < count:
                items.append(await anext(following))
    return items


async def read_until(world: World, session: str, last: Cursor, after: Cursor = START) -> list[Item]:
    """What follows `after`, up to the item that ends with the cursor `last`."""
    items: list[Item] = []
    with anyio.fail_after(READ_LIMIT_S):
        async with aclosing(world.follow(session, after)) as following:
            while after < last:
                items.append(await anext(following))
                after = items[-1].cursor
    return items


def pieces(items: Sequence[Item]) -> list[tuple[Cursor, bytes]]:
    """Every single thing that `items` show, with the cursor it stands at: what two ways of reading must agree on."""
    shown: list[tuple[Cursor, bytes]] = []
    for item in items:
        seq, last = item.cursor.seq, item.cursor.index
        match item.what:
            case Commit(header, body):
                shown += [(Cursor(seq, index), body) for index in range(item.first, header.width)]
                assert last == header.width - 1
            case Delta(body):
                shown.append((item.cursor, body))
            case Gap(count):
                shown += [(Cursor(seq, index), b"gap") for index in range(last - count + 1, last + 1)]
    return shown


async def whole(world: World, session: str) -> list[Commit]:
    """All commits, read page by page."""
    commits: list[Commit] = []
    while page := await world.commits(session, after=len(commits)):
        commits += page
    return commits


def same(there: object, wanted: object) -> None:
    """Fail, showing both, unless they are equal."""
    assert there == wanted, f"there is {there!r:.2000}\nwanted   {wanted!r:.2000}"


def is_a(error: object, kind: type[OutlastError]) -> None:
    """Fail unless `error` is of that class."""
    assert isinstance(error, kind), f"{error!r} is no {kind.__name__}"


class raises:  # noqa: N801 it reads as a verb
    """Expect an error of that class; without pytest."""

    def __init__(self, kind: type[OutlastError]) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if kind is None:
            raise AssertionError(f"no {self._kind.__name__} was raised")
        return issubclass(kind, self._kind)
