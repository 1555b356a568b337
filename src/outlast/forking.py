"""Forks: a session of its own with the past of another, up to a commit.

What the fork goes on with is decided here, once, and written down as its first own commit; recovery then finds nothing
unusual. Invariants:

* **Nothing that may have taken effect is done again.** An open call that recovery could not simply do again ends as
  `cancelled`, and the model is told that it belongs to the source: a tool's under any policy but `safe`, a child, a
  wait that the model asked for. Later calls have keys of their own, since those come from the session's id.
* **Nothing that is finished is asked for again**: the outcomes of the past are the fork's as much as the source's.
* What may simply be done again stays open and is done by the fork: a question to the model, a `safe` tool, and the
  waits of a loop, which code cannot ask for anew. They end by their time, or by a signal or an answer to *the fork*.
* **A fork does nothing that nobody told it to.** Prompts that waited and schedules would come twice, once in each: they
  are the source's alone, as are what it owes to others: notices, reports to a parent, recalls of children. Signals
  that were kept are facts that the past has heard, begin nothing by themselves and stay.
* Whatever a turn was parked for is over: a person who forks it wants it to go on. Its budgets are not whole again, and
  what a person has allowed in it was allowed to the source.
* Places are nobody else's: a fork has a folder and a HOME of its own, where the harness's files are rebuilt from the
  log. There the harness knows it under the name that the past is written in (`SessionOpened.session`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from outlast.clock import Clock
from outlast.codec import Packer, encode_records, record_refs
from outlast.engine.load import load_state
from outlast.errors import BadInput, CommitUnknown, SessionExists, TurnUnknown
from outlast.fold import SessionState, apply_record, records_of
from outlast.ids import check_session_id, new_id
from outlast.records import (
    PLAIN,
    AnyRecord,
    AttemptEnded,
    CallIntent,
    CallOutcome,
    ErrandDone,
    Forked,
    NoticeTried,
    PromptRecalled,
    TurnOpened,
    TurnReleased,
    Unscheduled,
)
from outlast.scheduling import ScheduleDesk
from outlast.state import CallState, status_of
from outlast.workspace import Workspace
from outlast.world import Commit, Header, World
from outlast.world.commit import make_commit

FORKED: Final = "forked"
"""Why an attempt, a call or an errand ended that was left to the source."""
PAGE: Final = 1000
NAME_LIMIT: Final = 100
"""Characters of a session's id that the id of its fork begins with."""

LEFT: Final = (
    "cancelled - this session was forked while the call was open. It belongs to the session that this one was forked "
    "from: there it may have taken effect, or may still. Here it has no result. Check what is there before you call it "
    "again."
)
LEFT_UNBEGUN: Final = (
    "cancelled - this session was forked before the call had begun. It did not run here; in the session that this one "
    "was forked from it may. Call it again only if it is still wanted here."
)
LEFT_WAIT: Final = (
    "cancelled - this session was forked while it waited. What was waited for comes to the session that this one was "
    "forked from. Call it again if this one is to wait as well."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fork that is asked for."""

    session: str
    """Its id."""
    at: int | None = None
    """The last commit that it shares; None: the newest."""
    workspace: Workspace | None = None
    """None: as the source works."""
    labels: Mapping[str, str] | None = None


class ForkDesk(ScheduleDesk):
    """The forks of a session, for an application."""

    async def fork(
        self,
        at: int | None = None,
        *,
        before_turn: int | None = None,
        id: str | None = None,  # noqa: A002
        workspace: Workspace | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Self:
        """Open a session that shares the past of this one up to commit `at`, and goes on by itself. Durable.

        This session is not changed, whatever it does at the moment. An open turn goes on in both: what is finished is
        not asked for again, and a tool whose effect may have happened ends in the fork as `cancelled`
        (`outlast.forking` says what becomes of what). The fork has ids of its own for what comes, and directories of
        its own; `workspace` says where it works instead, which must be said where this one works in a directory of
        a user's own, and both are to change files.

        Args:
            at: by default the newest commit.
            before_turn: instead of `at`: the last commit before that turn was opened, as if its prompt had never come.
            id: of the fork, by default a new one; the same id again is the same fork.

        Raises:
            CommitUnknown, TurnUnknown: there is no such commit or turn.
            SessionExists: the id is another session's.
            BadInput: the workspace keeps its files in another store than this session.
            BadSessionId, SessionErased, WorldUnavailable
        """
        if before_turn is not None:
            if at is not None:
                raise BadInput(
                    detail="A fork is at a commit or before a turn: give one of `at` and `before_turn`."
                )
            at = await last_before(self.world, self.id, before_turn)
        name = id or new_id(self.id[:NAME_LIMIT])
        await make_fork(self.world, self.id, Wanted(name, at, workspace, labels), self._clock)
        return type(self)(self.world, name, self._clock, self._shapes)


async def make_fork(world: World, source: str, wanted: Wanted, clock: Clock) -> None:
    """Make the fork, or find it if it is there already. Durable when this returns.

    Raises:
        CommitUnknown, SessionExists, SessionUnknown, SessionErased, BadSessionId, WorldUnavailable
    """
    check_session_id(wanted.session)
    head = await world.get(source)
    at = head.seq if wanted.at is None else wanted.at
    if not 1 <= at <= head.seq:
        raise CommitUnknown(session=source, seq=at, newest=head.seq)
    snapshot_seq = head.snapshot_seq if head.snapshot_seq <= at else 0
    state = await load_state(world, source, snapshot_seq, at)
    place = wanted.workspace
    if place is not None:
        _check_store(state, place)
    forked = Forked(
        session=wanted.session,
        source=source,
        at=at,
        folder=new_id(wanted.session),
        workspace={} if place is None else dict(place.reference()),
        cwd="" if place is None else place.cwd,
        at_s=clock.now(),
    )
    first = forking_commit(world.tenant, state, forked)
    placement = None if place is None else place.placement
    try:
        await world.fork(source, wanted.session, first, placement=placement, labels=wanted.labels)
    except SessionExists:
        await _check_same(world, source, wanted)


def _check_store(state: SessionState, place: Workspace) -> None:
    """Return if the files that the past has kept can be read where the fork is to work.

    Raises:
        BadInput: they are kept elsewhere than the fork's would be.
    """
    said = {} if state.opened is None else state.opened.workspace
    there, here = str(said.get("store", "")), str(place.reference().get("store", ""))
    if state.tree.root and there != here:
        kept = f"are kept in {there}" if there else "are kept in the World"
        raise BadInput(
            detail=f"The files of {state.session} {kept}, those of its fork would be in {here or 'the World'}. "
            "Name a workspace with the same store."
        )


async def _check_same(world: World, source: str, wanted: Wanted) -> None:
    """Return if the session that is there is the fork that was asked for.

    Raises:
        SessionExists
    """
    head = await world.get(wanted.session)
    forked = (await load_state(world, wanted.session, head.snapshot_seq)).forked
    if forked is None or forked.session != wanted.session:
        raise SessionExists(session=wanted.session, difference="it is no fork")
    if forked.source != source:
        raise SessionExists(session=wanted.session, difference=f"it is a fork of {forked.source}")
    if wanted.at not in {None, forked.at}:
        raise SessionExists(session=wanted.session, difference=f"it is a fork at commit {forked.at}")
    if wanted.workspace is not None and _place(wanted.workspace.reference(), wanted.workspace.cwd) != _place(
        forked.workspace, forked.cwd
    ):
        raise SessionExists(session=wanted.session, difference=f"it works in {forked.cwd or 'another place'}")


def _place(reference: Mapping[str, Any], cwd: str) -> tuple[object, ...]:
    """What of a workspace is never another for the same one, however a later outlast describes it."""
    return (cwd, reference.get("kind"), reference.get("store", ""))


async def last_before(world: World, session: str, turn: int) -> int:
    """The number of the last commit before the one that opened `turn`.

    Raises:
        TurnUnknown
    """
    after = 0
    while page := await world.commits(session, after, PAGE):
        for commit in page:
            records = records_of(session, commit)
            if any(isinstance(record, TurnOpened) and record.turn == turn for record in records):
                return commit.header.seq - 1
        after = page[-1].header.seq
    raise TurnUnknown(session=session, turn=turn)


def forking_commit(tenant: str, state: SessionState, forked: Forked) -> Commit:
    """The first commit of a fork of a session whose state at commit `forked.at` is `state`, which is used up."""
    packer = Packer(tenant, set())
    records: list[AnyRecord] = [forked, *_ended(state, forked, packer)]
    held = set(state.held)
    state.seq = forked.at + 1
    for record in records:
        apply_record(state, record)
    refs = dict.fromkeys((*record_refs(records), *packer.blobs))
    header = Header(
        seq=forked.at + 1,
        fence=state.fence,
        format=PLAIN,
        events=len(records),
        refs=tuple(name for name in refs if name not in held),
        turn_open=state.turn is not None,
        status=status_of(state),
    )
    blobs = {name: data for name, data in packer.blobs.items() if name not in held}
    return make_commit(header, encode_records(records), blobs)


def _ended(state: SessionState, forked: Forked, packer: Packer) -> Iterable[AnyRecord]:
    """What the fork leaves to its source."""
    at_s, turn = forked.at_s, state.turn
    if turn is not None:
        for call in turn.open_calls():
            if not _goes_on(call.intent):
                yield _left(call, packer, at_s)
        yield AttemptEnded(turn.turn, "handed_over", FORKED, at_s)
        yield TurnReleased(turn.turn, FORKED, at_s, renews=False)
    for prompt in state.queue:
        yield PromptRecalled(prompt.input, "")
    for name in state.schedules:
        yield Unscheduled(name, "")
    for notice in state.untold:
        yield NoticeTried(notice.due.number, error=FORKED, at_s=at_s)
    for errand in state.errands:
        yield ErrandDone(errand.number, FORKED, at_s)


def _goes_on(intent: CallIntent) -> bool:
    """Whether an open call is the fork's to do again."""
    match intent.kind:
        case "model" | "value":
            return True
        case "wait":
            return not (intent.harness_id or intent.child)
        case "tool":
            return intent.policy == "safe"


def _left(call: CallState, packer: Packer, at_s: float) -> CallOutcome:
    intent = call.intent
    text = LEFT_WAIT if intent.kind == "wait" else LEFT if call.begun else LEFT_UNBEGUN
    value: object = {"status": "cancelled", "error": text} if intent.child else text
    result = packer.payload(value, what="the outcome")
    return CallOutcome(intent.call, intent.turn, "cancelled", result, intent.lane, at_s=at_s)
