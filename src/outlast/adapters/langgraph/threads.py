"""Threads: where the lines of a journal are kept, and how what two write at once is put in order."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

import msgspec

from outlast.adapters.langgraph.index import Index
from outlast.adapters.langgraph.journal import FILE, Dropped, Entry, Put, entry_of, line_of
from outlast.clock import Clock
from outlast.codec import Packer, encode_records, record_refs
from outlast.errors import (
    BadSessionId,
    CheckpointTaken,
    CommitConflict,
    Fenced,
    LogBroken,
    SessionErased,
    SessionExists,
    SessionUnknown,
)
from outlast.fold import records_of
from outlast.ids import check_session_id, digest, new_id
from outlast.records import PLAIN, Mirrored, Payload, SessionOpened
from outlast.squeezing import unsqueeze
from outlast.world import Commit, Header, SessionHead, World
from outlast.world.commit import make_commit

AGENT: Final = "langgraph"
"""Whose sessions threads are that no agent of a worker's owns."""
KIND: Final = "langgraph"
THREAD: Final = "langgraph_thread"
"""Labels of the sessions that a checkpointer opens: the first is `thread`, the second the thread's own id."""
PAGE: Final = 1000
PIECE: Final = 4 * 1024 * 1024
"""Characters of lines that one commit holds, about."""
_OURS: Final = "lg-"

Make: TypeAlias = Callable[[Index], Sequence[Entry]]


class Overtaken(Exception):
    """Somebody else's lines are there first; read them, and append anew."""


class Lines(Protocol):
    """The lines of a journal, which others may append to as well."""

    async def read(self) -> Sequence[str]:
        """Those that came since the last call."""
        ...

    async def append(self, lines: Sequence[str]) -> None:
        """Durable when this returns, all of them or none.

        Raises:
            Overtaken: there are lines that were not read.
        """
        ...


class Thread:
    """The checkpoints of one thread, read and written."""

    def __init__(self, id_: str, lines: Lines) -> None:
        self.id = id_
        self.index = Index()
        self._lines = lines
        self._lock = asyncio.Lock()
        self._queue: list[_Queued] = []

    async def refresh(self) -> Index:
        """The checkpoints as they are now."""
        async with self._lock:
            await self._read()
        return self.index

    async def append(self, make: Make) -> None:
        """Append what `make` makes of the checkpoints as they are. Durable when this returns.

        What several tasks append at once lands together.

        Raises:
            CheckpointTaken: another process has gone on from the same checkpoint.
        """
        mine = _Queued(make)
        self._queue.append(mine)
        async with self._lock:
            if not mine.done:
                batch, self._queue = self._queue, []
                await self._land(batch, mine)
        if mine.error is not None:
            raise mine.error

    async def _land(self, batch: "list[_Queued]", mine: "_Queued") -> None:
        try:
            entries = await self._written(batch)
        except Exception as error:  # noqa: BLE001 - raised by each of those that wait for it
            for one in batch:
                one.done, one.error = True, one.error or error
            return
        except BaseException:  # whoever wrote for all is cancelled; the others do it themselves
            self._queue = [*(one for one in batch if one is not mine), *self._queue]
            raise
        for entry in entries:
            self.index.apply(entry)
        for one in batch:
            one.done = True

    async def _written(self, batch: "Sequence[_Queued]") -> Sequence[Entry]:
        while True:
            entries = _made(batch, self.index)
            try:
                if entries:
                    await self._lines.append([line_of(entry) for entry in entries])
            except Overtaken:
                await self._read()
            else:
                return entries

    async def _read(self) -> None:
        for line in await self._lines.read():
            try:
                self.index.apply(entry_of(line))
            except msgspec.MsgspecError as error:
                raise LogBroken(session=self.id, seq=0, reason=f"a checkpoint: {error}") from None


class _Queued:
    """What somebody wants to append."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.done = False
        self.error: Exception | None = None


def _made(batch: Sequence[_Queued], index: Index) -> list[Entry]:
    entries: list[Entry] = []
    taken: dict[tuple[str, str], str] = {}
    for one in batch:
        one.error = None
        made = one.make(index)
        for entry in made:
            if isinstance(entry, Put) and entry.source == "loop" and entry.parent:
                place = (entry.ns, entry.parent)
                by = taken.setdefault(place, index.successor(*place) or entry.id)
                if by != entry.id:
                    one.error = CheckpointTaken(checkpoint=entry.parent, by=by)
        if one.error is None:
            entries += made
    return entries


class WorldLines:
    """The lines of a session that nobody advances: each append is a commit of its own."""

    def __init__(self, world: World, head: SessionHead) -> None:
        self._world = world
        self._session = head.session
        self._last: Header | None = None
        self._count = 0

    async def read(self) -> Sequence[str]:
        found: list[str] = []
        while True:
            after = 0 if self._last is None else self._last.seq
            page = await self._world.commits(self._session, after, PAGE)
            pieces: list[Mirrored] = []
            for commit in page:
                pieces += _pieces(self._session, commit)
                self._last = commit.header
            found += await self._lines(pieces)
            if len(page) < PAGE:
                return found

    async def _lines(self, pieces: Sequence[Mirrored]) -> list[str]:
        names = list(dict.fromkeys(piece.lines.ref for piece in pieces if piece.lines.ref))
        blobs: Mapping[str, bytes] = await self._world.get_many(self._session, names) if names else {}
        lines: list[str] = []
        for piece in pieces:
            if piece.position != self._count:
                reason = f"its checkpoints go on at line {piece.position}, not {self._count}"
                raise LogBroken(session=self._session, seq=0, reason=reason)
            text = unsqueeze(blobs[piece.lines.ref]) if piece.lines.ref else bytes(piece.lines.json)
            lines += msgspec.json.decode(text, type=list[str])
            self._count += piece.count
        return lines

    async def append(self, lines: Sequence[str]) -> None:
        last = self._last
        if last is None:
            raise Overtaken
        packer = Packer(self._world.tenant, set())
        payload: Payload = packer.payload(list(lines), what="a checkpoint")
        record = Mirrored(FILE, self._count, payload, len(lines))
        header = Header(
            seq=last.seq + 1,
            fence=last.fence,
            format=PLAIN,
            events=1,
            refs=tuple(dict.fromkeys((*record_refs([record]), *packer.blobs))),
            wake_at_s=last.wake_at_s,
            status=last.status,
        )
        commit = make_commit(header, encode_records([record]), packer.blobs)
        try:
            await self._world.commit_idle(self._session, commit)
        except (CommitConflict, Fenced):
            raise Overtaken from None
        self._last, self._count = commit.header, self._count + len(lines)


def _pieces(session: str, commit: Commit) -> list[Mirrored]:
    return [one for one in records_of(session, commit) if isinstance(one, Mirrored) and one.file == FILE]


class WorldThreads:
    """The threads of a World: each a session."""

    def __init__(self, world: World, clock: Clock, agent: str) -> None:
        self._world = world
        self._clock = clock
        self._agent = agent

    async def find(self, thread: str) -> Thread | None:
        """A thread that is there."""
        head = await self._head(thread)
        return None if isinstance(head, str) else Thread(thread, WorldLines(self._world, head))

    async def open(self, thread: str) -> Thread:
        """A thread, opened if it is not there yet."""
        while True:
            head = await self._head(thread)
            if not isinstance(head, str):
                return Thread(thread, WorldLines(self._world, head))
            opened = SessionOpened(
                session=head,
                agent=self._agent,
                adapter="langgraph",
                at_s=self._clock.now(),
                folder=new_id(head),
            )
            first = make_commit(Header(1, 0, PLAIN, 1, status="new"), encode_records([opened]))
            labels = {KIND: "thread", THREAD: thread}
            with suppress(SessionExists, SessionErased):  # somebody was faster
                await self._world.create(head, first, agent=self._agent, labels=labels)

    async def _head(self, thread: str) -> SessionHead | str:
        """The session of a thread; if there is none, the id that it would have."""
        life = 1
        while True:
            session = session_of(thread, life)
            try:
                return await self._world.get(session)
            except SessionUnknown:
                return session
            except SessionErased:  # its id is never used again
                life += 1

    async def erase(self, thread: str) -> None:
        """Remove a thread for good. Of a session that an agent owns, its checkpoints are dropped."""
        head = await self._head(thread)
        if isinstance(head, str):
            return
        if head.labels.get(KIND) == "thread":
            await self._world.erase(head.session)
            return
        found = Thread(thread, WorldLines(self._world, head))
        await found.refresh()
        await found.append(lambda index: [Dropped(tuple((put.ns, put.id) for put in index.puts()))])

    async def copy(self, source: str, target: str) -> None:
        """Append everything of one thread to another."""
        head = await self._head(source)
        if isinstance(head, str):
            return
        lines = await WorldLines(self._world, head).read()
        if not lines:
            return
        into = await self.open(target)
        await into.refresh()
        for piece in _pieces_of(lines):
            await into.append(lambda _, piece=piece: [entry_of(line) for line in piece])

    async def ids(self) -> AsyncGenerator[str]:
        """Every thread that a checkpointer opened, the newest change first."""
        after: str | None = None
        while True:
            page = await self._world.list(after=after, labels={KIND: "thread"})
            for head in page.sessions:
                yield head.labels.get(THREAD, head.session)
            after = page.next
            if after is None:
                return


def _pieces_of(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """The lines in pieces, none much longer than one commit should be."""
    piece: list[str] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _is_session_id(text: str) -> bool:
    try:
        check_session_id(text)
    except BadSessionId:
        return False
    return True


def session_of(thread: str, life: int = 1) -> str:
    """The id of a thread's session: of two threads never the same one.

    The thread's own id where that is a session id, else one made of it. A thread that was erased and is used again
    begins another `life`, since the ids of sessions are never used twice.
    """
    if not thread.startswith(_OURS) and _is_session_id(thread) and life == 1:
        return thread
    text = thread.encode(errors="surrogatepass")
    name = f"x{text.hex()}" if len(text) <= 50 else f"h{digest(text).encode().hex()}"
    return f"{_OURS}{name}" if life == 1 else f"{_OURS}{life}-{name}"
