"""What the contract must know of one harness: its agent, how a model names its tools, and what it cannot do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from outlast.adapter import Agent
from outlast.gate import Point
from outlast.testing.models import Step, ToolUse
from outlast.tool import Tool


@dataclass(frozen=True, slots=True)
class Compaction:
    """How a harness is brought to compact a conversation of its own accord."""

    steps: Sequence[Step]
    """Of the conversation: the first calls the tool that was given and reports the usage after which the harness
    compacts; those after it answer the harness's request for a summary."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON; what the session is opened with beside the agent's own settings."""
    conversations: Mapping[str, Sequence[Step]] = field(default_factory=dict[str, Sequence[Step]])
    """More conversations of the script, where the request for a summary is no part of the one that it is about."""
    asks: int = 2
    """Which model call of the turn asks for the summary."""
    keeps: int = 0
    """Answers that stand in the conversation when it goes on: from before and, where that is one, the summary."""
    then: str = "after"
    """The conversation that goes on: `default` where no user says the summary, since then none is selected."""


class Subject(Protocol):
    """One harness under the contract. A subclass says what differs; one object of it is a module's `SUBJECT`.

    A subject holds nothing of a turn: each case, and each worker process, asks it anew, and must be told the same.
    """

    name: ClassVar[str]
    """The harness as users name it: `claude-code`, `codex`. Its cases are called `CASE-NAME`."""
    dialect: ClassVar[str]
    """In which the harness speaks to its model: `anthropic`, `openai-responses`, `openai-chat`."""
    recipe: ClassVar[str]
    """Where a process of its own finds the subject: `module:attribute`."""
    lacks: ClassVar[Mapping[str, str]] = {}
    """Cases that do not hold for it, by name, with the reason as a sentence for the table in the docs.

    Such a case is not run for what it promises; `make test-all` runs it and fails if it holds after all.
    """
    acted: ClassVar[Point] = Point.AFTER_EFFECT
    """Where a worker is struck when a tool of the application has acted: at `OUTCOME_QUEUED` if these tools run in the
    harness, so that the worker first hears of it when it is told the outcome."""
    foreign_words: ClassVar[Sequence[str]] = ()
    """What the adapter or the harness adds in order to resume, and no model request may hold."""
    unset: ClassVar[Sequence[str]] = ()
    """Environment variables that would lead the program to files outside of HOME."""

    def furnish(self, place: Path) -> None:
        """Put what the harness needs there into the directory in which sessions are to work; nothing by default.

        Raises:
            HarnessMissing: its program is not here; the error says what installs it.
        """
        return

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        """The agent whose turns are tried, with these tools of an application.

        Args:
            upstream: base URL of the scripted model server, for a loop that asks it directly. A program is led there
                by its worker's gateway.

        Raises:
            HarnessMissing: its program is not here; the error says what installs it.
        """
        ...

    def untested(self, tools: Sequence[Tool], directory: Path) -> Agent | None:
        """The agent with the same program under a version number that no adapter has been tested with.

        Args:
            directory: empty; whatever must be put together for it goes there.

        Returns None where the harness has no program.
        """
        return None

    def application(self, tool: str, **arguments: object) -> ToolUse:
        """A call of one of the application's tools, with the name that the model is offered for it."""
        ...

    def shell(self, command: str) -> ToolUse | None:
        """A call of the harness's own shell, which runs in the session's directory; None if it has none."""
        return None

    def write(self, path: str, text: str) -> ToolUse | None:
        """A call of its own tool that makes a file, below the session's directory; None if it has none."""
        return None

    def sub_agent(self, conversation: str) -> ToolUse | None:
        """A call that has a sub-agent of the harness follow a conversation of the script, and waits for its report.

        What it tells the sub-agent holds `[script:CONVERSATION]`. None if the harness has no sub-agents.
        """
        return None

    def compaction(self, early: ToolUse, summary: str, place: Path) -> Compaction | None:
        """How to have it compact a conversation after its first step; None if it never does.

        Args:
            early: what the model calls in the first step.
            summary: stands in the summary that the model makes, as plain text.
            place: the session's directory, for a settings file if need be.
        """
        return None

    def is_program(self, command: bytes) -> bool:
        """Whether this is the command line of the harness's main process, as `/proc/PID/cmdline` holds it."""
        return False

    def broken_files(self, home: Path, *, cut: bool) -> Sequence[str]:
        """What is wrong with the session files below HOME, each fault as a sentence.

        Args:
            home: holds the mirrored files as the World has them, and nothing else.
            cut: the last turn was cut short, so that its last calls may lack their results.
        """
        return ()
