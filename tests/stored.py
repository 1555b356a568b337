"""Sessions whose files are in a store beside the World, written by hand: no worker and no workspace is needed."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from outlast.codec import encode_records
from outlast.drive import EMPTY_ROOT, Entry
from outlast.engine.load import load_state
from outlast.records import FORMAT, FilesKept
from outlast.session import Session
from outlast.workspaces.drive import Drive, Edit, open_store
from outlast.workspaces.virtual import virtual
from outlast.world import Header, World
from outlast.world.commit import make_commit


async def stored(world: World, name: str, store: Path | str, *versions: Mapping[str, str]) -> list[str]:
    """A session that has kept its files so, one after the other; the roots."""
    await Session.open(world, name, agent="tester", workspace=virtual(store=str(store)))
    state = await load_state(world, name)
    assert state.opened is not None
    packs, folder = open_store(str(store), world.tenant), state.opened.folder
    await packs.claim(folder, 1)
    drive = Drive(packs, world.tenant, put=partial(packs.put_many, session=folder, fence=1))
    roots = [EMPTY_ROOT]
    for seq, files in enumerate(versions, 2):
        edits = [
            Edit(path, Entry(path, "file", 0o644, mtime_ns=seq), text.encode())
            for path, text in files.items()
        ]
        roots.append((await drive.edit(roots[-1], edits)).root)
        header, body = Header(seq, 0, FORMAT, 1), encode_records([FilesKept(roots[-1], 0, "undo")])
        await world.commit_idle(name, make_commit(header, body, {}))
    return roots[1:]
