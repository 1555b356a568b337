"""Sessions that begin with the past of another."""

from dataclasses import replace

from outlast.errors import CommitUnknown, Fenced, SessionErased
from outlast.world.beginning import Fork
from outlast.worlds.memory.store import Session, new_head


def is_same(kept: Session, source: Session | None, new: Fork) -> bool:
    """The very same fork stands already.

    Raises:
        SessionExists, SessionErased
    """
    if kept.erased:
        raise SessionErased(session=new.session)
    alive = None if source is None or source.erased else source
    new.check_same(
        itself=kept is source,
        digest=_digest(kept, new.at + 1),
        same_past=alive is None or _digest(alive, new.at) == _digest(kept, new.at),
        placement=kept.head.placement,
        labels=kept.head.labels,
    )
    return True


def past_of(source: Session, new: Fork, now_s: float) -> Session:
    """A session that has the past of `source` and nothing of its own.

    Raises:
        CommitUnknown, Fenced
    """
    head = source.head
    if new.at > head.seq:
        raise CommitUnknown(session=head.session, seq=new.at, newest=head.seq)
    past = source.commits[: new.at]
    fence = past[-1].header.fence
    if new.first.header.fence != fence:
        raise Fenced(session=new.session, current=fence, fence=new.first.header.fence)
    placement = head.placement if new.placement is None else new.placement
    fresh = new_head(new.session, head.agent, placement, dict(new.labels), now_s)
    seen = [one for one in source.inputs.values() if one.consumed_by and one.consumed_by <= new.at]
    return Session(
        replace(
            fresh,
            seq=new.at,
            fence=fence,
            format=max(commit.header.format for commit in past),
            snapshot_seq=max(commit.header.seq if commit.header.snapshot else 0 for commit in past),
            priority=new.priority,
        ),
        past,
        0,
        inputs={one.id: replace(one, arrival=place) for place, one in enumerate(seen, 1)},
        names={name for commit in past for name in commit.header.refs},
    )


def _digest(kept: Session, seq: int) -> str:
    return kept.commits[seq - 1].header.digest if seq <= len(kept.commits) else ""
