"""What a case of the contract is, and how it is run on a subject."""

import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

import anyio

from outlast.testing.adapter_contract.stage import Stage, staged
from outlast.testing.adapter_contract.subject import Subject
from outlast.testing.models import Step, ToolUse

CASE_LIMIT_S: Final = 240.0


class Lacking(Exception):
    """The subject has nothing that the case could be tried with."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where one case is tried: a subject, and an empty directory."""

    subject: Subject
    directory: Path

    @asynccontextmanager
    async def staged(
        self, script: Mapping[str, Sequence[Step]], *, retries: int | None = None
    ) -> AsyncGenerator[Stage]:
        """A stage whose model follows the script."""
        async with staged(self.subject, self.directory, script, retries=retries) as stage:
            yield stage

    def use(self, name: str, **arguments: object) -> ToolUse:
        """A call of one of the application's tools."""
        return self.subject.application(name, **arguments)

    def shell(self, command: str) -> ToolUse:
        """A call of the harness's shell."""
        return _there(self.subject.shell(command), "shell")

    def write(self, path: str, text: str) -> ToolUse:
        """A call of its tool that makes files."""
        return _there(self.subject.write(path, text), "tool that writes files")

    def sub_agent(self, conversation: str) -> ToolUse:
        """A call of a sub-agent that follows a conversation."""
        return _there(self.subject.sub_agent(conversation), "sub-agent")


def _there(use: ToolUse | None, what: str) -> ToolUse:
    if use is None:
        raise Lacking(f"it has no {what} of its own")
    return use


Run = Callable[[Ground], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """One promise about a harness, as a test that needs nothing but a subject and an empty directory."""

    name: str
    run: Run
    core: bool = False
    """One of the few that are worth their time after every change."""
    turns: int = 1
    """How many turns of the harness it takes."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended."""

    name: str
    outcome: Literal["passed", "failed", "lacking"]
    detail: str
    """Of a failed case the traceback, of a lacking one the subject's reason."""
    seconds: float


def promise(*, core: bool = False, turns: int = 1) -> Callable[[Run], Case]:
    """Make a case of a function. Its name is the promise."""

    def make(run: Run) -> Case:
        return Case(run.__name__, run, core, turns)

    return make


def named(name: str, case: Case) -> Case:
    """The case under another name."""
    return replace(case, name=name)


async def run_case(case: Case, subject: Subject) -> CaseResult:
    """Run one case in a directory of its own; not at all if the subject says that it lacks it."""
    if case.name in subject.lacks:
        return CaseResult(case.name, "lacking", subject.lacks[case.name], 0.0)
    began = time.perf_counter()
    outcome: Literal["passed", "failed"] = "passed"
    detail = ""
    try:
        with anyio.fail_after(CASE_LIMIT_S), TemporaryDirectory() as directory:
            await case.run(Ground(subject, Path(directory)))
    except Exception:  # noqa: BLE001 - the result carries it
        outcome, detail = "failed", traceback.format_exc()
    return CaseResult(case.name, outcome, detail, time.perf_counter() - began)
