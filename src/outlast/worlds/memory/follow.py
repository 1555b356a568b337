"""What a reader of a session has not seen yet."""

from collections.abc import Iterator

from outlast.world import Cursor, Gap, Item
from outlast.worlds.memory.store import Session


def behind(kept: Session, after: Cursor) -> Iterator[Item]:
    """Everything behind the cursor `after`, as far as it is there now."""
    for seq in range(max(1, after.seq), len(kept.commits) + 1):
        commit = kept.commits[seq - 1]
        width = commit.header.width
        seen = after.index if after.seq == seq else -1
        if seen < width - 1:
            yield Item(Cursor(seq, width - 1), commit, seen + 1)
        shown = kept.deltas.get(seq, [])
        counts = kept.commits[seq].header.sealed if seq < len(kept.commits) else len(shown)
        for index in range(max(0, seen + 1 - width), min(counts, len(shown))):
            yield Item(Cursor(seq, width + index), shown[index])
        lost = max(len(shown), seen + 1 - width)
        if lost < counts:
            yield Item(Cursor(seq, width + counts - 1), Gap(counts - lost), lost)
