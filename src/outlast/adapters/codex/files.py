"""Codex's files of one session in one attempt: rebuilt from the mirror, brought up to the log, mirrored on."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from outlast.adapter import MAIN, Attempt, ToolResult
from outlast.adapters.codex.dialogue import COMPACTION
from outlast.adapters.codex.places import FOUNDED, codex_home, input_id, rollout_path, stamp
from outlast.adapters.codex.policies import STDIN, policy_of
from outlast.adapters.codex.repair import Answer, Known, Repair, Steer, closed, repair
from outlast.adapters.codex.results import in_items, output_of_ours
from outlast.adapters.codex.rollout import (
    COMPACTED,
    Rollout,
    as_line,
    dangling,
    has_said,
    is_said,
    item_of,
    parse,
    text_of,
)
from outlast.adapters.lines import end_of
from outlast.adapters.program import LOST, answered
from outlast.adapters.shapes import Json, as_list, as_object, as_objects
from outlast.beneath import READ_LIMIT, Beneath
from outlast.errors import HarnessError
from outlast.fold import CallState, TurnState
from outlast.records.kinds import OutcomeStatus
from outlast.recovery import NOT_COMPLETED, Run
from outlast.tool import result_text

TYPED: Final = (
    "The program that this was to be typed into has ended, with the process that ran it, before its answer was "
    "recorded. It is not known what of it the program had read. Start it again if it is still wanted."
)
NOT_TYPED: Final = (
    "This was not typed: the program that it was for has ended, since a person had to be asked first. "
    "Start it again if it is still wanted."
)
BLOCKED: Final = "Command blocked by PreToolUse hook"
"""How outputs begin of calls that a hook did not let run."""


_EMPTY: Final = Rollout((), ())
_beside: Final = anyio.to_thread.run_sync
"""What goes through a whole rollout, which may be long, does so beside the event loop."""


@dataclass(frozen=True, slots=True)
class Ready:
    """How the harness is to be started."""

    say_prompt: bool
    """The turn begins with its prompt; else the interrupted one goes on by itself."""
    over: str | None = None
    """The turn is over in the log: its last text, and nothing is to be started."""


class SessionFiles:
    """Codex's files of one session, in one attempt.

    Attributes:
        said: has become true when the prompt of the turn is in the mirror.
    """

    def __init__(self, attempt: Attempt, thread: str) -> None:
        self._attempt = attempt
        self._thread = thread
        opened = attempt.state.opened
        adopted = attempt.settings.get(FOUNDED)
        self.founded_s = float(adopted or (0.0 if opened is None else opened.at_s))
        self._path = rollout_path(thread, self.founded_s)
        self._prompt = input_id(thread, attempt.turn.input)
        self._read = 0
        self._count = 0
        self._rollout = _EMPTY
        self._reading = anyio.Lock()
        self.said = False

    @property
    def prompt(self) -> str:
        """The id under which Codex is told the prompt."""
        return self._prompt

    def steer_id(self, steer: str) -> str:
        """The id under which Codex is told a steer."""
        return input_id(self._thread, steer)

    async def prepare(self) -> Ready:
        """Bring the rollout to where the log is. Every answer that is then in it is delivered."""
        attempt = self._attempt
        await self._settle_typed()
        lines = (await attempt.mirrored()).get(self._path, [])
        rollout = await _beside(Rollout.read, lines)
        begun = attempt.resumed and has_said(rollout.records, self._prompt)
        over = await self._over() if begun else None
        if begun:
            self._rollout = await self._catch_up(rollout, attempt.turn)
        else:
            self._rollout = await self._between_turns(rollout, attempt.state.cut)
        self._count = len(self._rollout.lines)
        self.said = begun
        return Ready(say_prompt=not begun, over=over)

    async def write(self, configuration: Mapping[str, str], founding: Mapping[str, object]) -> None:
        """Put the rollout and the configuration on disk, and nothing of an earlier attempt."""
        home, lines = self._attempt.places.home, self._rollout.lines
        size = await _beside(lay_out, home, self._thread, self._path, configuration, founding, lines)
        self._read, self._count = (size, len(lines)) if lines else (0, 0)
        self._rollout = _EMPTY  # on disk, and in the log: a long one need not stay in memory as well

    async def go_on(self) -> None:
        """Leave what is below HOME as it is, and mirror on behind what the log has."""
        known = self._attempt.state.files.get(self._path)
        self._count = 0 if known is None else known.lines
        home = Beneath(self._attempt.places.home)
        self._read = await anyio.to_thread.run_sync(end_of, home, self._path, self._count)

    @property
    def records(self) -> Sequence[Json]:
        """What stands in the rollout as it was prepared, until it is written."""
        return self._rollout.records

    async def _settle_typed(self) -> None:
        """What was to be typed into a program cannot be any more: the program has ended with its worker."""
        turn = self._attempt.turn
        for step in self._attempt.plan:
            intent = turn.calls[step.call].intent
            if isinstance(step, Run) and intent.name == STDIN and intent.runs_in == "harness":
                asked = step.call in (*turn.allowed, *turn.allowed_for_turn)
                typed = ToolResult("interrupted", NOT_TYPED) if asked else ToolResult("in_doubt", TYPED)
                await self._attempt.settle(step.call, typed)

    async def _between_turns(self, rollout: Rollout, cut: TurnState | None) -> Rollout:
        """The prompt of this turn is not in the rollout: close the turn before it."""
        if cut is not None and has_said(rollout.records, input_id(self._thread, cut.input)):
            rollout = await self._catch_up(rollout, cut)
        outputs = await self._outputs(cut)
        for call in await _beside(dangling, rollout.records):
            if (name := str(call["call_id"])) not in outputs:
                outputs[name] = text = _lost(call)
                # The gateway knows nothing of a call that the harness made before outlast was there.
                self._attempt.calls.correct(name, ToolResult("in_doubt", text))
        done = await _beside(partial(closed, rollout.records, outputs, otherwise=LOST, at=self._stamp()))
        return await self._apply(rollout, done)

    async def _catch_up(self, rollout: Rollout, turn: TurnState) -> Rollout:
        """Put what the log knows of `turn` into the rollout."""
        answers = await self._attempt.answers()
        first, before = self._around_compactions(turn, rollout.records)
        known = [call for call in answered(turn, MAIN) if first < call.intent.call < before]
        outputs = await self._outputs(turn)
        current = turn is self._attempt.turn
        told = [self._answer(answers[call.intent.call], turn, call.intent.call) for call in known]
        unanswered = [
            str(call["call_id"]) for answer in told for call in answer.calls if call["call_id"] not in outputs
        ]
        again = current and bool(told) and any(call["call_id"] in unanswered for call in told[-1].calls)
        if not again:
            outputs = {**dict.fromkeys(unanswered, LOST), **outputs}
        steers = self._steers_of_open_call(turn)
        wanted = Known(input_id(self._thread, turn.input), told, outputs, steers, again)
        mended = await _beside(partial(repair, rollout.records, wanted, at=self._stamp()))
        if current:
            # Those before a compaction as well: the summary in the rollout was made from them.
            there = [call for call in answered(turn, MAIN) if call.intent.call < before]
            summaries = [call for call in answered(turn, COMPACTION) if call.intent.call <= first]
            left = known[-1:] if again else []
            self._attempt.calls.delivered(
                [call.intent.call for call in (*there, *summaries) if call not in left]
            )
        return await self._apply(rollout, mended)

    def _around_compactions(self, turn: TurnState, records: Sequence[Json]) -> tuple[int, int]:
        """The call that made the newest summary which the rollout has, and the first whose summary it lacks.

        What came after a lost one goes on from the summary and not from this rollout. Codex compacts again, is served
        the same summary from the log, asks the same and is served that as well.
        """
        prompt = input_id(self._thread, turn.input)
        begins = next((at for at, record in enumerate(records) if is_said(record, prompt)), len(records))
        done = sum(record.get("type") == COMPACTED for record in records[begins:])
        made = [call.intent.call for call in answered(turn, COMPACTION)]
        return (
            made[done - 1] if 0 < done <= len(made) else 0,
            made[done] if done < len(made) else sys.maxsize,
        )

    def _answer(self, answer: Mapping[str, object], turn: TurnState, call: int) -> Answer:
        items, usage = as_objects(answer.get("output")), as_object(answer.get("usage"))
        return Answer(items, self._steers_of(turn, call), usage)

    def _steers_of(self, turn: TurnState, call: int) -> list[Steer]:
        return [Steer(steer.text, self.steer_id(steer.input)) for steer in turn.steers if steer.call == call]

    def _steers_of_open_call(self, turn: TurnState) -> list[Steer]:
        asked = [
            call for call in turn.open_calls() if call.intent.kind == "model" and call.intent.lane == MAIN
        ]
        return [steer for call in asked for steer in self._steers_of(turn, call.intent.call)]

    async def _over(self) -> str | None:
        """The last text, if the newest answer of the conversation asks for nothing and nothing came after."""
        calls = self._attempt.turn.calls.values()
        newest = [call for call in calls if call.intent.kind == "model" and call.intent.lane == MAIN]
        if not newest or newest[-1].outcome is None or newest[-1].outcome.status != "ok":
            return None
        answer = (await self._attempt.answers())[newest[-1].intent.call]
        items = as_objects(answer.get("output"))
        if Answer(items).calls or answer.get("end_turn") is False or answer.get("status") == "incomplete":
            return None
        texts = [text_of(item) for item in items if item.get("type") == "message"]
        return texts[-1] if texts else ""

    async def _outputs(self, turn: TurnState | None) -> dict[str, object]:
        """What the model is told of every settled call of `turn`: as a request has told it, where one has."""
        attempt = self._attempt
        told: dict[str, object] = {}
        for messages in (await attempt.requests()).values():
            told |= in_items(messages)
        outputs = dict(told)
        for call in turn.calls.values() if turn is not None else ():
            if call.intent.kind != "model" and call.intent.harness_id:
                outputs.pop(call.intent.harness_id, None)
                if call.outcome is not None:
                    outputs[call.intent.harness_id] = await self._output(call, told)
        for harness_id in attempt.state.told:
            known = attempt.calls.result_of(harness_id)
            if known is not None:
                outputs[harness_id] = result_text(known.value)
        return outputs

    async def _output(self, call: CallState, told: Mapping[str, object]) -> object:
        """The output of one settled call, and the correction that the gateway makes if it is told otherwise."""
        attempt, intent = self._attempt, call.intent
        outcome = await attempt.outcome(intent.call)
        if outcome.status in {"in_doubt", "interrupted", "cancelled"}:
            return result_text(outcome.value)
        if intent.runs_in == "worker":
            return told.get(intent.harness_id, output_of_ours(outcome))
        listed = as_list(outcome.value)
        output = told.get(intent.harness_id, listed or result_text(outcome.value))
        # The harness will be told that a call which has ended may not run a second time.
        attempt.calls.correct(intent.harness_id, ToolResult(outcome.status, output))
        return output

    async def _apply(self, rollout: Rollout, done: Repair) -> Rollout:
        if done.keep < len(rollout.lines) or done.lines:
            await self._attempt.mirror(self._path, done.keep, done.lines)
        return rollout.changed(done.keep, done.lines)

    async def mirror(self) -> None:
        """See `take`."""
        await self.take()

    async def take(self) -> Sequence[Json]:
        """Record what Codex has appended to the rollout, and settle the calls whose outputs stand there. Returns it.

        Whoever is cancelled here has done nothing by halves: the next does the same again, at the same place.
        """
        async with self._reading:
            records: list[Json] = []
            while piece := await self._take_piece():
                records += piece
            return records

    async def _take_piece(self) -> Sequence[Json]:
        """Some of it: a rollout may have grown by more than is to be in memory at a time."""
        home = Beneath(self._attempt.places.home)
        if not _has_grown(home, self._path, self._read):  # it is looked at with everything that Codex tells
            return ()
        data = await anyio.to_thread.run_sync(_read_from, home, self._path, self._read)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole:
            if len(data) == READ_LIMIT:
                raise HarnessError(
                    harness="Codex", reason=f"a line of its rollout has more than {READ_LIMIT} bytes"
                )
            return ()
        lines = whole[:-1].decode(errors="replace").split("\n")
        records = parse(lines)
        has_prompt = not self.said and has_said(records, self._prompt)
        for call_id, output in in_items(item_of(record) for record in records).items():
            await self.settle(call_id, output)
        await self._attempt.mirror(self._path, self._count, lines, durable=has_prompt)
        self._read += len(whole)
        self._count += len(lines)
        self.said = self.said or has_prompt
        return records

    async def settle(self, call_id: str, output: object) -> None:
        """A call of Codex's own tools has ended, and its model reads `output`."""
        status: OutcomeStatus = "ok" if self._may_have_run(call_id, output) else "error"
        await self._attempt.calls.settle_tool(call_id, ToolResult(status, output))

    def _may_have_run(self, call_id: str, output: object) -> bool:
        """Whether the log has let a call begin: else its output says why it did not run."""
        intent = self._attempt.calls.intent_of(call_id)
        if intent is None or str(output).startswith(BLOCKED):
            return False
        begun = self._attempt.turn.calls[intent.call].begun
        # No hook is told of what is typed, nor of some tools that only look.
        return begun or intent.policy == "safe" or intent.name == STDIN

    def _stamp(self) -> str:
        return stamp(self._attempt.clock.now())


def _founded_again(lines: Sequence[str], founding: Mapping[str, object]) -> Mapping[str, object]:
    """What the application offers today, in place of what it did when the session was founded.

    The instructions that a session was adopted with stay: every request begins with them.
    """
    own = as_object(parse(lines[:1])[0].get("payload")) if lines else {}
    if "base_instructions" not in own:
        return founding
    about = as_object(founding["payload"])
    return {**founding, "payload": {**about, "base_instructions": own["base_instructions"]}}


def _lost(call: Mapping[str, Any]) -> str:
    """What the model is told of a call of which neither log nor rollout knows the end."""
    arguments = parse([str(call.get("arguments", ""))]) or [{}]
    return NOT_COMPLETED if policy_of(str(call.get("name", "")), arguments[0]) == "safe" else LOST


def lay_out(
    home: Path,
    thread: str,
    rollout: str,
    configuration: Mapping[str, str],
    founding: Mapping[str, object],
    lines: Sequence[str],
) -> int:
    """Put a rollout and the configuration below HOME, and nothing of before. Returns the rollout's size in bytes."""
    below, codex = Beneath(home), codex_home(thread)
    below.remove(codex)
    for name, text in configuration.items():
        below.write(f"{codex}/{name}", text.encode())
    whole = [as_line(_founded_again(lines, founding)), *lines[1:]]
    data = "".join(f"{line}\n" for line in whole).encode()
    below.write(rollout, data)
    return len(data)


def _has_grown(home: Beneath, path: str, position: int) -> bool:
    """Whether there is anything behind `position`."""
    found = home.find(path)  # Codex may not have written to it yet
    return found is not None and found.st_size > position


def _read_from(home: Beneath, path: str, position: int) -> bytes:
    try:
        return home.read(path, offset=position)
    except FileNotFoundError:  # it is gone since
        return b""
