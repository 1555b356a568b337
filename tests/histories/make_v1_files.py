"""Made `v1/extra-files.json`: `python -m tests.histories.make_v1_files DIRECTORY`.

A session whose files were kept when a turn began, with a call, when the turn ended, and by an undo. Written by
hand. Kept to show where the file comes from.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.codec import Packer, encode_records, record_refs
from outlast.records import (
    FORMAT,
    AnyRecord,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    FilesKept,
    PromptQueued,
    SessionOpened,
    TurnOpened,
    TurnSettled,
)
from outlast.world.commit import Commit, Header, make_commit
from tests.histories.stored import History, summary

SESSION = "extra-files"


def _commit(seq: int, packer: Packer, *records: AnyRecord) -> Commit:
    refs = tuple(dict.fromkeys((*record_refs(records), *packer.blobs)))
    header = Header(seq, min(seq - 1, 1), FORMAT, len(records), refs=refs)
    made = make_commit(header, encode_records(list(records)), packer.blobs)
    return replace(made, blobs=dict(packer.blobs))


def kept() -> History:
    """The whole story."""

    def packer() -> Packer:
        return Packer("default", set())

    first, second = packer(), packer()
    roots = [first.blob(b"a pack"), second.blob(b"another pack")]
    prompt = first.payload("go", what="prompt")
    shell = second.payload({"cwd": "/workspace/src"}, what="aside")
    opened = SessionOpened(SESSION, "tester", "python", workspace={"kind": "virtual", "checkpoint": "call"})
    return History.of(
        SESSION,
        [
            _commit(1, packer(), opened),
            _commit(2, packer(), AttemptOpened("worker-1", at_s=1.0)),
            _commit(3, packer(), PromptQueued("in-1", prompt), TurnOpened(1, "in-1", prompt, 2.0)),
            _commit(4, first, FilesKept(roots[0], 1, "begin", changed=("a.txt",), at_s=3.0)),
            _commit(5, packer(), CallIntent(1, 1, "main", 0, "tool", "bash", policy="safe")),
            _commit(
                6,
                second,
                FilesKept(roots[1], 1, "call", 1, shell, ("a.txt", "src/b.txt"), 4.0),
                CallOutcome(1, 1, "ok", prompt),
            ),
            _commit(7, packer(), FilesKept(roots[0], 1, "end", at_s=5.0), TurnSettled(1, "done", prompt)),
            _commit(8, packer(), FilesKept(roots[0], 1, "undo", changed=("src/b.txt",), at_s=6.0)),
        ],
        {},
    )


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = kept()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
