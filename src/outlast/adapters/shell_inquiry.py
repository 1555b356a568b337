"""Asks a repository, what it is pushed to and its forge what became of a line of shell (`outlast.inquiry.Inquiry`).

Nothing is asked over the network before a line begins. Afterwards the repository is looked at first, and only what may
have begun is asked for further away; who does not answer is asked a few times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import Any, Final

import anyio
import msgspec

from outlast.adapters.shell import judge
from outlast.adapters.shell_acts import Act, Branch, Commit, PullRequest, Push
from outlast.adapters.shell_found import (
    Finding,
    Line,
    Listed,
    brought_from,
    found_at_forge,
    found_below,
    found_here,
    found_there,
    goal_of,
    is_unexplained,
    shown,
)
from outlast.adapters.shell_looks import (
    Facts,
    afterwards,
    at_remote,
    before,
    complaint_of,
    fetched,
    log_of,
    pull_requests,
    read_facts,
    reference_of,
    text_of,
)
from outlast.inquiry import Answer, Partly, Scene, Witness
from outlast.tool import Done, NotDone, Unsure

KIND: Final = "shell"
LOOK_S: Final = 8.0
FAR_S: Final = 12.0
"""What one look at this machine, and one beyond it, may take."""
PAUSES_S: Final = (0.5, 2.0)
"""Between the times that somebody is asked who does not answer."""

LOST: Final = (
    "The process that ran this command was lost, and what it printed with it. What it did was looked up since"
)
DONE: Final = LOST + ", and all of it is done:"
PARTLY: Final = LOST + "; it was not run again:"
LEFT: Final = "What is left to be done: {left}"
LOCKED: Final = (
    "The git that was cut off left {locks} behind, and no git command works before that is gone. {running}"
)
NO_GIT: Final = "No git runs here any more: remove it first."
SOME_GIT: Final = (
    "A git still runs here, which may be another one: see whether it needs it before you remove it."
)
OTHER: Final = "What the harness began is not what the call said."
OLDER: Final = "What was noted before the command began cannot be read by this release."


def inquiry_of(command: object, cwd: object = None) -> "ShellInquiry | None":
    """What can be asked about a line of shell; None where it is not `verify` (`outlast.adapters.shell.judge`).

    Args:
        cwd: where it is run, if the call says so: absolute, or seen from where the harness is.
    """
    judged = judge(command) if isinstance(command, str) else None
    if judged is None or judged.policy != "verify":
        return None
    return ShellInquiry(judged.acts, cwd if isinstance(cwd, str) else "")


@dataclass(frozen=True, slots=True)
class ShellInquiry:
    """See `outlast.inquiry.Inquiry`."""

    acts: Sequence[Act]
    cwd: str = ""

    @property
    def files_only(self) -> bool:
        return False  # hooks of the repository may do anything

    async def note(self, scene: Scene) -> Witness | None:
        place = [one for one in (scene.cwd, self.cwd) if one]
        facts = await _look(scene, place, before(self.acts), LOOK_S)
        known = any(key.endswith(".top") and top for key, top in facts.items())
        return {"kind": KIND, "acts": self._texts, "place": place, "facts": dict(facts)} if known else None

    @property
    def _texts(self) -> Sequence[str]:
        return [self.cwd, *(act.text for act in self.acts)]

    async def ask(self, scene: Scene, witness: Witness) -> Answer:
        place, facts = witness.get("place"), witness.get("facts")
        if witness.get("kind") != KIND or not isinstance(place, list) or not isinstance(facts, dict):
            return Unsure(OLDER)
        if witness.get("acts") != self._texts:
            return Unsure(OTHER)
        at = [str(one) for one in place]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
        noted = {str(key): str(value) for key, value in facts.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - JSON
        line = Line(self.acts, noted, await _look(scene, at, afterwards(self.acts), LOOK_S))
        for n in range(len(self.acts)):
            line.findings.append(await _Asking(scene, at, line).found(n))
        return verdict_of(line)


async def _look(scene: Scene, place: Sequence[str], text: str, timeout_s: float) -> Facts:
    into = " && ".join(f"cd -- {quote(directory)}" for directory in place)
    ran = await scene.run(f"{into or 'true'} || exit 0\n{text}", timeout_s=timeout_s)
    facts = read_facts(ran.stdout)
    return {**facts, "machine": ""} if scene.lasts and "machine" in facts else facts


@dataclass(frozen=True, slots=True)
class _Asking:
    """About a line that was cut off, one act after the other."""

    scene: Scene
    place: Sequence[str]
    line: Line

    async def found(self, n: int) -> Finding:
        line, deed = self.line, self.line.acts[n].deed
        if isinstance(deed, Branch | Commit):
            return found_here(line, n)
        known = line.unseen(n) or line.unbegun(n)
        if known is not None:
            return known
        return await (self._pushed(n) if isinstance(deed, Push) else self._opened(n, deed))

    async def _pushed(self, n: int) -> Finding:
        line, act, goal = self.line, self.line.acts[n], goal_of(self.line, n)
        if goal.unknown:
            return Finding("unsure", f"`{shown(act)}`: {goal.unknown}")
        facts = await self._far(at_remote(act.entered, goal.remote, goal.ref))
        there = reference_of(facts, goal.ref)
        if there is None:
            return _unanswered(act, goal.remote, facts)
        if is_unexplained(goal, there) or (there and not goal.commit):
            text = fetched(act.entered, goal.remote, goal.ref, there, goal.commit, len(line.acts) + 1)
            facts = await _look(self.scene, self.place, text, FAR_S)
            if goal.commit and facts.get("below"):
                return found_below(line, n, goal, there)
            brought = None if goal.commit else brought_from(line, n, goal, log_of(facts, "log"))
            if brought is not None:
                return brought
        return found_there(line, n, goal, there)

    async def _opened(self, n: int, deed: PullRequest) -> Finding:
        line, act = self.line, self.line.acts[n]
        head = deed.head.rpartition(":")[2] or line.branch(n).removeprefix("refs/heads/")
        if not head:
            return Finding("unsure", f"`{shown(act)}`: HEAD was on no branch")
        facts = await self._far(pull_requests(act.entered, deed, head))
        listed = _listed(text_of(facts, "heard")) if facts.get("status") == "0" else None
        if listed is None:
            return _unanswered(act, "the forge", facts)
        return found_at_forge(line, n, head, listed)

    async def _far(self, text: str) -> Facts:
        """Ask somebody who may not answer at once."""
        facts = await _look(self.scene, self.place, text, FAR_S)
        for pause_s in PAUSES_S:
            if facts.get("status") == "0":
                break
            await anyio.sleep(pause_s)
            facts = await _look(self.scene, self.place, text, FAR_S)
        return facts


def _unanswered(act: Act, whom: str, facts: Facts) -> Finding:
    return Finding("unsure", f"`{shown(act)}`: {whom} could not be asked ({complaint_of(facts)})")


def _listed(text: str) -> Sequence[Listed] | None:
    """What `gh pr list --json` says; None where that cannot be read."""
    try:
        found: Any = msgspec.json.decode(text)
        return [
            Listed(
                int(one["number"]),
                str(one["url"]),
                str(one["state"]),
                str(one["title"]),
                str(one["baseRefName"]),
                datetime.fromisoformat(str(one["createdAt"])).timestamp(),
            )
            for one in found
        ]
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None


def verdict_of(line: Line) -> Answer:
    """What is to be done about a line, and what its model is told."""
    states = {one.state for one in line.findings}
    said = [f"- {one.said}." for one in line.findings]
    locks = _locks(line.after)
    if "unsure" in states:
        return Unsure("\n".join(["This was found out:", *said, *_left(line), *locks]))
    if states == {"done"}:
        return Done("\n".join([DONE, *said, *_left(line), *locks]))
    if states == {"not_done"} and not locks and all(one.harmless for one in line.findings):
        return NotDone()
    return Partly("\n".join([PARTLY, *said, *locks, *_left(line)]))


def _left(line: Line) -> Sequence[str]:
    """The commands that are left: one line, or one for each directory."""
    lines: list[tuple[Sequence[str], list[str]]] = []
    for act, one in zip(line.acts, line.findings, strict=True):
        if one.left and (not lines or lines[-1][0] != act.gone):
            lines.append((act.gone, []))
        if one.left:
            lines[-1][1].extend(text for text in one.left if text not in lines[-1][1])
    typed = [
        " && ".join([*(f"cd {quote(directory)}" for directory in gone), *texts]) for gone, texts in lines
    ]
    shown_as = [f"`({one})`" if len(typed) > 1 else f"`{one}`" for one in typed]
    return [LEFT.format(left=", then ".join(shown_as))] if typed else []


def _locks(after: Facts) -> Sequence[str]:
    found = [path for key, paths in after.items() if key.endswith(".lock") for path in paths.split("\n")]
    running = SOME_GIT if after.get("running") else NO_GIT
    return [LOCKED.format(locks=" and ".join(dict.fromkeys(found)), running=running)] if found else []
