"""The files of a session as its log has them: at any commit, and what a turn has changed."""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from outlast.drive import Entry
from outlast.errors import BadInput, FileMissing
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation, Streamed
from outlast.server.routes.sessions import session_of
from outlast.trees import Trees, shown
from outlast.workspaces.drive import to_tar

ENTRIES: Final = 1000
CHANGES: Final = 500
LINES: Final = 2000
"""Lines of one file's differences."""
Path: TypeAlias = Annotated[str, msgspec.Meta(max_length=4096)]
Number = Annotated[int, msgspec.Meta(ge=1, lt=2**53)]


class Place(msgspec.Struct, frozen=True):
    """Which file, and when."""

    path: Path = ""
    at: Number | None = None
    """As it was at this commit; null: the newest."""
    turn: Number | None = None
    """Instead: as it was before this turn."""


class Span(msgspec.Struct, frozen=True):
    """What is compared."""

    path: Path = ""
    """Only below this."""
    turn: Number | None = None
    """What this turn has changed; null: the newest."""
    since: Number | None = None
    """Instead: what has changed since this commit."""
    at: Number | None = None
    """Up to this commit; null: the newest."""


class File(msgspec.Struct, frozen=True):
    """A file, a link or a directory."""

    path: str
    kind: Literal["file", "link", "dir"]
    mode: int
    size: int
    mtime_s: float
    digest: str
    target: str


class Files(msgspec.Struct, frozen=True):
    """What is in a directory."""

    seq: int
    """The commit that was looked at."""
    files: list[File]
    more: bool
    """There are more than are listed."""


class Change(msgspec.Struct, frozen=True):
    """What is not the same at a path."""

    path: str
    what: Literal["added", "removed", "changed", "touched"]
    before: File | None
    after: File | None
    lines: list[str]
    """In the words of `diff -u`."""
    more: bool
    """There are more lines than are shown."""


class Changes(msgspec.Struct, frozen=True):
    """What is not the same."""

    changes: list[Change]
    more: bool
    """There are more changes than are listed."""


async def list_files(call: Call[Nothing, Place]) -> Files:
    """List what is in a directory of the session's files, at a commit or before a turn."""
    trees = await Trees.of(await session_of(call))
    root, seq = await _root(trees, call.query)
    path = call.query.path
    there = await trees.drive.find(root, path) if path.strip("/") else None
    if path.strip("/") and there is None:
        raise FileMissing(path=shown(path))
    found = [there] if there is not None and there.kind != "dir" else await trees.drive.list(root, path)
    return Files(seq, [_file(entry) for entry in found[:ENTRIES]], len(found) > ENTRIES)


async def read_file(call: Call[Nothing, Place]) -> Streamed:
    """Give the content of a file, at a commit or before a turn."""
    trees = await Trees.of(await session_of(call))
    root, _ = await _root(trees, call.query)
    entry = await trees.drive.find(root, call.query.path)
    if entry is None or entry.kind != "file":
        raise FileMissing(path=shown(call.query.path))
    headers = {"content-disposition": "attachment", "content-length": str(entry.size)}
    return Streamed(_content(trees, root, call.query.path), "application/octet-stream", headers)


async def diff_files(call: Call[Nothing, Span]) -> Changes:
    """Show what a turn has changed, or what has changed since a commit."""
    trees, query = await Trees.of(await session_of(call)), call.query
    before, after = await _both(trees, query)
    found: list[Change] = []
    async for change in trees.changes(before, after, query.path):
        if len(found) == CHANGES:
            return Changes(found, more=True)
        lines = [
            line for _, line in zip(range(LINES + 1), await trees.shown(change, before, after), strict=False)
        ]
        pair = [None if one is None else _file(one) for one in (change.before, change.after)]
        found.append(
            Change(shown(change.path), change.what, pair[0], pair[1], lines[:LINES], len(lines) > LINES)
        )
    return Changes(found, more=False)


async def tar_files(call: Call[Nothing, Place]) -> Streamed:
    """Give all files, or those below a path, as a tar archive."""
    trees = await Trees.of(await session_of(call))
    root, seq = await _root(trees, call.query)
    name = f"{trees.session.id}-{seq}.tar"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    path = call.query.path
    if path.strip("/") and await trees.drive.find(root, path) is None:
        raise FileMissing(path=shown(path))
    return Streamed(to_tar(trees.drive, root, path), "application/x-tar", headers)


async def _content(trees: Trees, root: str, path: str) -> AsyncGenerator[bytes]:
    async for piece in trees.drive.read_pieces(root, path):
        yield piece


async def _root(trees: Trees, place: Place) -> tuple[str, int]:
    if place.turn is not None and place.at is not None:
        raise BadInput(detail="`at` and `turn` exclude each other.")
    state = await trees.at(place.at)
    return (state.tree.root if place.turn is None else await trees.before(place.turn)), state.seq


async def _both(trees: Trees, span: Span) -> tuple[str, str]:
    if span.since is not None:
        if span.turn is not None:
            raise BadInput(detail="`since` stands in place of `turn`: give one of them.")
        return (await trees.at(span.since)).tree.root, (await trees.at(span.at)).tree.root
    turn = await trees.newest_turn() if span.turn is None else span.turn
    before = await trees.before(turn)
    return before, await trees.after(turn) if span.at is None else (await trees.at(span.at)).tree.root


def _file(entry: Entry) -> File:
    return File(
        shown(entry.path),
        entry.kind,
        entry.mode,
        entry.size,
        entry.mtime_ns / 1e9,
        entry.digest,
        shown(entry.target),
    )


_FILES: Final = "/v1/sessions/{session}/files"
OPERATIONS: Final[Sequence[Operation]] = (
    Operation("GET", _FILES, list_files, Scope.READ, Files, query=Place),
    Operation(
        "GET", f"{_FILES}/content", read_file, Scope.READ, query=Place, media="application/octet-stream"
    ),
    Operation("GET", f"{_FILES}/diff", diff_files, Scope.READ, Changes, query=Span),
    Operation("GET", f"{_FILES}/tar", tar_files, Scope.READ, query=Place, media="application/x-tar"),
)
