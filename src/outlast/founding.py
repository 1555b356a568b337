"""How a session begins: its first record, and its first commit."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from outlast.adapter import Agent
from outlast.clock import Clock
from outlast.codec import Packer, encode_records, record_refs
from outlast.documents import versions_of
from outlast.ids import new_id
from outlast.offering import check_place
from outlast.records import PLAIN, AnyRecord, Mirrored, SessionOpened
from outlast.workspace import Workspace
from outlast.world.commit import Commit, Header, make_commit

PIECE: Final = 1024 * 1024
"""Characters of a file that stand in one record, if not a single line is longer."""


def opening_of(
    session: str,
    agent: str | Agent,
    workspace: Workspace | None,
    home: Path | None,
    settings: Mapping[str, Any] | None,
    clock: Clock,
) -> SessionOpened:
    """What opens `session`: of an agent that is given its adapter and settings are written down."""
    if isinstance(agent, Agent):
        if (place := workspace or agent.workspace) is not None:
            check_place(agent.name, agent.adapter, place)
        name, adapter, own = agent.name, agent.adapter.name, dict(agent.adapter.settings())
        workspace = workspace or agent.workspace
        versions = versions_of(agent.documents)
    else:
        name, adapter, own, versions = agent, "", {}, {}
    return SessionOpened(
        session=session,
        agent=name,
        adapter=adapter,
        settings={**own, **(settings or {})},
        workspace={} if workspace is None else dict(workspace.reference()),
        cwd="" if workspace is None else workspace.cwd,
        home="" if home is None else str(home),
        at_s=clock.now(),
        documents=versions,
        folder=new_id(session),
    )


def founding_commit(
    tenant: str, opened: SessionOpened, files: Mapping[str, Sequence[str]] | None = None
) -> Commit:
    """Commit 1 of a session, which has mirrored `files` from the beginning.

    Args:
        files: of its harness, by path below HOME, in lines without their ends.

    Raises:
        BadPayload: something in it is not JSON, or a line is too long.
    """
    packer = Packer(tenant, set())
    records: list[AnyRecord] = [opened]
    for name, lines in (files or {}).items():
        at = 0
        for piece in _pieces(lines):
            lines_of = packer.payload(piece, what=f"lines of {name}")
            records.append(Mirrored(name, at, lines_of, len(piece)))
            at += len(piece)
    refs = tuple(dict.fromkeys((*record_refs(records), *packer.blobs)))
    header = Header(1, 0, PLAIN, len(records), refs=refs, status="new")
    return make_commit(header, encode_records(records), packer.blobs)


def _pieces(lines: Sequence[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for line in lines:
        if piece and size + len(line) > PIECE:
            yield piece
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield piece
