"""A log that is folded from any of its snapshots comes to what it comes to from its beginning."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.codec import Packer
from outlast.fold import SessionState, apply, fold, records_of
from outlast.records import Snapshot
from outlast.snapshots import adopt, snapshot_of, whole
from outlast.world.commit import Commit
from tests.property.strategies import commit, logs


class _Written:
    """A log with snapshots in it, as a writer writes them, and its blobs."""

    def __init__(self) -> None:
        self.state = SessionState(session="s")
        self.log: list[Commit] = []
        self.blobs: dict[str, bytes] = {}
        self.snapshots: list[int] = []

    def add(self, one: Commit) -> None:
        self._put(commit(len(self.log) + 1, one.header.fence, records_of("s", one)))

    def snapshot(self, worth: int, part: int) -> None:
        packer = Packer("default", set(self.blobs))
        record = snapshot_of(self.state, packer, worth=worth, part=part)
        self.blobs |= packer.blobs
        self.snapshots.append(len(self.log))
        self._put(commit(len(self.log) + 1, self.state.fence, [record], snapshot=True))

    def _put(self, one: Commit) -> None:
        self.log.append(one)
        apply(self.state, one.header, records_of("s", one))

    async def get_blobs(self, names: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self.blobs[name] for name in names}

    def folded_from(self, at: int) -> SessionState:
        """As `engine.load` does it."""
        state = SessionState(session="s", seq=at)
        (record,) = records_of("s", self.log[at])
        assert isinstance(record, Snapshot)
        adopt(state, _at_once(whole(record, self.get_blobs)))
        for later in self.log[at:]:
            apply(state, later.header, records_of("s", later))
        return state


def _at_once(job: Coroutine[Any, Any, SessionState]) -> SessionState:
    """What a coroutine returns that waits for nothing: an event loop for each would take most of the time."""
    try:
        job.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")


def _written(log: Sequence[Commit], data: st.DataObject) -> _Written:
    written = _Written()
    sizes = st.sampled_from([(1, 1), (1, 10_000), (300, 1), (10**9, 1)])
    for one in log:
        written.add(one)
        if data.draw(st.booleans()):
            written.snapshot(*data.draw(sizes))
    return written


def _check(written: _Written) -> None:
    all_of_it = fold("s", written.log)
    assert written.state == all_of_it
    for at in written.snapshots:
        state = written.folded_from(at)
        assert msgspec.structs.replace(state, held=[]) == msgspec.structs.replace(all_of_it, held=[])
        for turn, same in ((state.turn, all_of_it.turn), (state.cut, all_of_it.cut)):
            if turn is not None and same is not None:
                assert list(turn.calls) == list(same.calls)


@given(logs(), st.data())
@settings(max_examples=min(25, settings().max_examples))
def test_folding_from_any_snapshot_is_folding_everything(log: list[Commit], data: st.DataObject) -> None:
    _check(_written(log, data))


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(logs(longest=150), st.data())
def test_folding_a_long_log_from_any_snapshot_is_folding_everything(
    log: list[Commit], data: st.DataObject
) -> None:
    _check(_written(log, data))
