"""A worker killed around an edit of the harness's own: the files say whether it was made."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from outlast.gate import Point
from outlast.records import CallIntent, CallOutcome, CallStarted, Verdict
from outlast.testing.adapter_contract.case import Case, Ground, Lacking, promise
from outlast.testing.adapter_contract.kill_cases import LAST, carried_on
from outlast.testing.adapter_contract.stage import Stage, prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step

TEXT: Final = "A line of it.\nAnother line.\n"
NAME: Final = "note.txt"
MAY_BEGIN: Final = Spot(Point.AFTER_START, "verify")
"""That it may begin is written down, and the harness has not been told so."""
ENDED: Final = Spot(Point.OUTCOME_QUEUED, "verify")
"""The harness has said how it ended, and that is not written down."""


@asynccontextmanager
async def _cut_off(ground: Ground, spot: Spot) -> AsyncGenerator[tuple[Stage, Path]]:
    """A worker has died around an edit; the file that this makes."""
    edit = ground.write(NAME, TEXT)
    async with ground.staged({"go": [Step(text="I write.", tools=(edit,)), *says(LAST)]}) as stage:
        if stage.agent.adapter.resolve(edit.name, edit.input, {}).inquiry is None:
            raise Lacking("what its tools do to files is not known")
        await stage.send(prompt("go"), id="go")
        await stage.killed_at(spot)
        yield stage, stage.shop / NAME


async def _edit(stage: Stage) -> tuple[CallIntent, CallOutcome, Verdict]:
    """The edit, how it ended, and what the files have said of it."""
    (intent,) = [one for one in await stage.of_kind(CallIntent) if one.kind == "tool"]
    (outcome,) = [one for one in await stage.of_kind(CallOutcome) if one.call == intent.call]
    (verdict,) = await stage.of_kind(Verdict)
    assert verdict.call == intent.call
    return intent, outcome, verdict


@promise(core=True)
async def an_edit_that_was_made_before_a_kill_is_settled_and_not_made_again(ground: Ground) -> None:
    async with _cut_off(ground, ENDED) as (stage, file):
        before = file.stat()
        await carried_on(stage, lost_answers=0)
        assert (file.read_text(), file.stat().st_mtime_ns) == (TEXT, before.st_mtime_ns)
        intent, outcome, verdict = await _edit(stage)
        assert (outcome.status, verdict.verdict) == ("ok", "done")
        begun = [one for one in await stage.of_kind(CallStarted) if one.call == intent.call]
        assert len(begun) == 1, "it was let go again"
        said = str(outcome.result.value()).splitlines()[-1]
        assert said.encode() in stage.last_body(), "the model was not told that it is made"


@promise()
async def an_edit_that_was_not_made_before_a_kill_is_made_or_may_be_asked_for_anew(ground: Ground) -> None:
    async with _cut_off(ground, MAY_BEGIN) as (stage, file):
        assert not file.exists()
        can = stage.agent.adapter.abilities.can_rerun
        await carried_on(stage, lost_answers=0)
        _, outcome, verdict = await _edit(stage)
        assert verdict.verdict == "not_done"
        assert outcome.status == ("interrupted" if can == "none" else "ok")
        assert file.exists() == (can != "none")
        assert can == "none" or file.read_text() == TEXT


@promise()
async def an_edit_of_which_the_files_do_not_tell_is_in_doubt(ground: Ground) -> None:
    async with _cut_off(ground, ENDED) as (stage, file):
        file.write_text("Somebody was here.\n")
        await carried_on(stage, lost_answers=0)
        _, outcome, verdict = await _edit(stage)
        assert (outcome.status, verdict.verdict) == ("in_doubt", "unsure")
        assert file.read_text() == "Somebody was here.\n"
        assert b"is neither as it was before" in stage.last_body(), "the model was not told what was found"


CASES: Final[tuple[Case, ...]] = (
    an_edit_that_was_made_before_a_kill_is_settled_and_not_made_again,
    an_edit_that_was_not_made_before_a_kill_is_made_or_may_be_asked_for_anew,
    an_edit_of_which_the_files_do_not_tell_is_in_doubt,
)
EDITS: Final = tuple(case.name for case in CASES)
"""What a harness lacks that has no tools of its own whose edits are known."""
