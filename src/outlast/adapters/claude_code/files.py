"""The session's files of Claude Code in one attempt: rebuilt from the mirror, brought up to the log, mirrored on."""

import re
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from anyio import to_thread

from outlast.adapter import MAIN, Attempt, ToolResult
from outlast.adapters.claude_code.dialogue import COMPACTION, SENTINEL
from outlast.adapters.claude_code.launch import prompt_uuid
from outlast.adapters.claude_code.laying import BASE64, renamed, write
from outlast.adapters.claude_code.places import transcript_path
from outlast.adapters.claude_code.policies import policy_of
from outlast.adapters.claude_code.repair import Answer, Pen, Repair, Result, Steer, closed, repair
from outlast.adapters.claude_code.results import in_messages, of_ours, of_response
from outlast.adapters.claude_code.transcript import ToolUse, dangling, holds, parse
from outlast.adapters.program import LOST as TOLD_OF_LOST
from outlast.adapters.program import answered
from outlast.adapters.shapes import as_object, as_objects
from outlast.beneath import Beneath
from outlast.errors import HarnessError
from outlast.fold import CallState, TurnState
from outlast.ids import stable_uuid
from outlast.recovery import NOT_COMPLETED, Run
from outlast.tool import result_text

KEPT_BYTES: Final = 16 * 1024 * 1024
"""Of one result that Claude Code has put into a file of its own."""
_REMINDER: Final = "<system-reminder>"
_KEPT: Final = re.compile(r"/tool-results/([A-Za-z0-9_-][A-Za-z0-9._-]*)")

LOST: Final = Result(TOLD_OF_LOST, is_error=True)
AGAIN: Final = Result(NOT_COMPLETED, is_error=True)


@dataclass(frozen=True, slots=True)
class Ready:
    """How the harness is to be started."""

    resume: bool
    """The transcript is there: `--resume`; else `--session-id`."""
    say_prompt: bool
    """The prompt goes to standard input; else the interrupted turn goes on by itself."""
    over: str | None = None
    """The turn is over in the log: its last text, and nothing is to be started."""


class SessionFiles:
    """Claude Code's files of one session, in one attempt."""

    def __init__(self, attempt: Attempt, session_uuid: str) -> None:
        self._attempt = attempt
        self._path = transcript_path(str(attempt.places.cwd), session_uuid)
        self._counts: dict[str, int] = {}
        self._uuid = session_uuid
        self.prompt_uuid = prompt_uuid(session_uuid, attempt.turn.input)

    async def prepare(self) -> Ready:
        """Bring everything below HOME to where the log is. Every answer that is then in the transcript is delivered."""
        attempt = self._attempt
        files = await self._mirrored()
        self._counts = {path: len(lines) for path, lines in files.items()}
        lines = files.get(self._path, [])
        begun = attempt.resumed and holds(parse(lines), self.prompt_uuid)
        if begun:
            over = await self._over()
            await self._catch_up(files, attempt.turn)
        else:
            over = None
            await self._between_turns(files, attempt.state.cut)
        # Of a turn that is over too: at a terminal the next prompt is typed behind what stands there.
        write(self._attempt.places.home, self._path, files)
        return Ready(resume=bool(lines), say_prompt=not begun, over=over)

    async def _mirrored(self) -> dict[str, Sequence[str]]:
        """The mirrored files, where Claude Code looks for them: a fork may work elsewhere than its past did."""
        files = {name: lines for name, lines in (await self._attempt.mirrored()).items() if lines}
        for name, moved in renamed(files, self._path, self._uuid).items():
            files[moved] = files.pop(name)
            await self._attempt.mirror(moved, 0, files[moved])
            await self._attempt.mirror(name, 0, [])
        return files

    def go_on(self) -> Path:
        """Leave what is below HOME as it is, and mirror on. Returns where the transcript is."""
        self._counts = {name: file.lines for name, file in self._attempt.state.files.items()}
        return self._attempt.places.home / self._path

    async def mirror_transcript(self, lines: Sequence[str]) -> None:
        """Record what the transcript, given whole, holds beyond what is mirrored."""
        known = self._counts.get(self._path, 0)
        if len(lines) < known:  # it is not what it was: from its beginning
            self._counts[self._path] = known = 0
        if lines[known:]:
            await self.mirror(self._path, lines[known:])

    async def _between_turns(self, files: dict[str, Sequence[str]], cut: TurnState | None) -> None:
        """The prompt of this turn is not in the transcript: close the turn before it."""
        if cut is not None and holds(parse(files.get(self._path, [])), prompt_uuid(self._uuid, cut.input)):
            await self._catch_up(files, cut)
        lines = files.get(self._path, [])
        if lines:
            results = {use.id: _lost(use) for use in dangling(parse(lines))} | await self._results(lines, cut)
            await self._apply(files, closed(lines, pen=self._pen(), results=results, sentinel=SENTINEL))

    async def _catch_up(self, files: dict[str, Sequence[str]], turn: TurnState) -> None:
        """Put what the log knows of `turn` into its transcript."""
        lines = files[self._path]
        answers = await self._attempt.answers()
        before = self._lost_compaction(turn, lines)
        known = [call for call in answered(turn, MAIN) if call.intent.call < before]
        reminders = await self._reminders(turn)
        mended = repair(
            lines,
            pen=self._pen(),
            answers=[
                replace(
                    self._answer(answers[call.intent.call], call, turn),
                    reminders=reminders.get(call.intent.call, ()),
                )
                for call in known
            ],
            results=await self._results(lines, turn),
            rerun=self._rerun(before) if turn is self._attempt.turn else None,
            steers=self._steers_of_open_call(turn, before),
            sentinel=SENTINEL,
        )
        await self._apply(files, mended)
        if turn is self._attempt.turn:
            self._attempt.calls.delivered([call.intent.call for call in known])

    async def _reminders(self, turn: TurnState) -> Mapping[int, Sequence[str]]:
        """What Claude Code itself said at the end of the newest request, by its call."""
        if turn is not self._attempt.turn:
            return {}
        asked = [
            call for call in turn.calls.values() if call.intent.kind == "model" and call.intent.lane == MAIN
        ]
        messages = (await self._attempt.requests()).get(MAIN, ())
        last = as_objects(as_object(messages[-1] if messages else None).get("content"))
        if not asked or not any(block.get("type") == "tool_result" for block in last):
            return {}
        texts = [str(block.get("text", "")) for block in last if block.get("type") == "text"]
        steers = [steer.text for steer in turn.steers]
        return {
            asked[-1].intent.call: [
                text
                for text in texts
                if text.startswith(_REMINDER) and not any(steer in text for steer in steers)
            ]
        }

    def _lost_compaction(self, turn: TurnState, lines: Sequence[str]) -> int:
        """The first call that made a summary which the transcript lacks; beyond every call if there is none.

        What came after it goes on from the summary and not from this transcript. Claude Code compacts again, is served
        the same summary from the log, asks the same and is served that as well.
        """
        records = parse(lines)
        prompt = prompt_uuid(self._uuid, turn.input)
        begins = next((at for at, record in enumerate(records) if holds([record], prompt)), len(records))
        done = sum(record.get("subtype") == "compact_boundary" for record in records[begins:])
        return next((call.intent.call for call in answered(turn, COMPACTION)[done:]), sys.maxsize)

    def _answer(self, message: Mapping[str, object], call: CallState, turn: TurnState) -> Answer:
        stop = message.get("stop_reason")
        return Answer(
            id=str(message.get("id", "")),
            model=str(message.get("model", call.intent.name)),
            content=as_objects(message.get("content")),
            stop_reason=stop if isinstance(stop, str) else None,
            usage=as_object(message.get("usage")),
            steers=self._steers_of(turn, call.intent.call),
        )

    def _steers_of(self, turn: TurnState, call: int) -> list[Steer]:
        return [
            Steer(steer.text, self.steer_uuid(steer.input)) for steer in turn.steers if steer.call == call
        ]

    def _steers_of_open_call(self, turn: TurnState, before: int) -> list[Steer]:
        open_calls = [
            call for call in turn.open_calls() if call.intent.lane == MAIN and call.intent.call < before
        ]
        return [steer for call in open_calls for steer in self._steers_of(turn, call.intent.call)]

    def steer_uuid(self, input_id: str) -> str:
        """The UUID of a steer's line on standard input."""
        return prompt_uuid(self._uuid, input_id)

    def _rerun(self, before: int) -> str | None:
        """The one call of the main conversation that Claude Code is to run again."""
        for step in self._attempt.plan:
            if isinstance(step, Run) and step.call < before:
                intent = self._attempt.turn.calls[step.call].intent
                if intent.lane == MAIN and intent.runs_in == "harness":
                    return intent.harness_id
        return None

    async def _over(self) -> str | None:
        """The last text, if the newest answer of the main conversation asks for nothing and nothing came after."""
        newest = [
            c for c in self._attempt.turn.calls.values() if c.intent.kind == "model" and c.intent.lane == MAIN
        ]
        if not newest or newest[-1].outcome is None or newest[-1].outcome.status != "ok":
            return None
        answer = (await self._attempt.answers())[newest[-1].intent.call]
        blocks = as_objects(answer.get("content"))
        if answer.get("stop_reason") not in {"end_turn", "stop_sequence", "refusal"}:
            return None
        return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")

    async def _results(self, lines: Sequence[str], turn: TurnState | None) -> dict[str, Result]:
        """What the model is told of every settled call of `turn`: as it was worded before where that is known."""
        attempt = self._attempt
        worded = in_messages(record.get("message") for record in parse(lines))
        for messages in (await attempt.requests()).values():
            worded = {**in_messages(messages), **worded}
        results: dict[str, Result] = {}
        for call in turn.calls.values() if turn is not None else ():
            intent = call.intent
            if intent.kind != "model" and intent.harness_id and call.outcome is not None:
                results[intent.harness_id] = await self._result(call, worded)
        for harness_id, result in worded.items():
            results.setdefault(harness_id, result)
        for harness_id in attempt.state.told:
            told = attempt.calls.result_of(harness_id)
            if told is not None:
                results[harness_id] = Result(result_text(told.value), is_error=True)
        return results

    async def _result(self, call: CallState, worded: Mapping[str, Result]) -> Result:
        """The result of one settled call, and the correction that the gateway makes if it is told otherwise."""
        attempt, intent = self._attempt, call.intent
        outcome = await attempt.outcome(intent.call)
        if outcome.status in {"in_doubt", "interrupted", "cancelled"}:
            return Result(result_text(outcome.value), is_error=True)
        known = worded.get(intent.harness_id)
        if known is None:
            failed = outcome.status == "error"
            if intent.runs_in == "worker":
                known = of_ours(outcome.value, is_error=failed)
            else:
                known = of_response(intent.name, outcome.value, is_error=failed)
        if intent.runs_in == "harness":
            attempt.calls.correct(
                intent.harness_id, ToolResult("error" if known.is_error else "ok", known.content)
            )
        return known

    async def _apply(self, files: dict[str, Sequence[str]], done: Repair) -> None:
        old = files.get(self._path, [])
        files[self._path] = [*old[: done.keep], *done.lines]
        if done.keep < len(old) or done.lines:
            await self._attempt.mirror(self._path, done.keep, done.lines)
        self._counts[self._path] = len(files[self._path])

    async def mirror(self, path: str, lines: Sequence[str], *, durable: bool = False) -> None:
        """Record what the harness has appended to one of its files."""
        for kept in {found for line in lines for found in _KEPT.findall(line)}:
            await self._mirror_kept(kept)
        position = self._counts.get(path, 0)
        self._counts[path] = position + len(lines)
        await self._attempt.mirror(path, position, lines, durable=durable)

    async def _mirror_kept(self, name: str) -> None:
        """Record a file that holds a result too large for a request: the model may look at it later."""
        path = f"{self._path.removesuffix('.jsonl')}/tool-results/{name}"
        if path in self._counts or path + BASE64 in self._counts:
            return
        try:
            home = Beneath(self._attempt.places.home)
            data = await to_thread.run_sync(partial(home.read, path, most=KEPT_BYTES + 1))
        except (OSError, HarnessError):  # a text that only looks like the name of one, or no file of its own
            return
        if len(data) <= KEPT_BYTES:
            path, text = as_text(path, data)
            self._counts[path] = 1
            await self._attempt.mirror(path, 0, [text])

    def has_prompt(self, lines: Sequence[str]) -> bool:
        """Whether these transcript lines hold the prompt of this turn."""
        return holds(parse(lines), self.prompt_uuid)

    def _pen(self) -> Pen:
        attempt = self._attempt
        at = (
            datetime.fromtimestamp(attempt.clock.now(), UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
        return Pen(lambda name: stable_uuid(self._uuid, str(attempt.fence), name), at)


def _lost(use: ToolUse) -> Result:
    """What the model is told of a call of which neither log nor transcript knows the end."""
    return AGAIN if policy_of(use.name, use.input) == "safe" else LOST


def as_text(path: str, data: bytes) -> tuple[str, str]:
    """A file as the mirror can hold it, and its name there: bytes that are no text, an image's, in base 64."""
    try:
        return path, data.decode()
    except UnicodeDecodeError:
        return path + BASE64, b64encode(data).decode()
