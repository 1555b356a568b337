"""The port between outlast and an agent program.

An `Adapter` knows one harness and holds no durability: everything that must outlive the process goes through the
`Attempt` that it is given. Two families implement it: a loop in Python, whose calls come to `Calls` directly, and a
program, whose calls come to `Calls` through the gateway.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from outlast.attaching import Attachment
from outlast.calls import (
    MAIN,
    SIDE,
    Budget,
    Calls,
    Deny,
    Joined,
    Let,
    ModelAsk,
    Opening,
    Parked,
    Resolved,
    Send,
    Served,
    ToolAsk,
    ToolResult,
    WaitAsk,
    is_passing,
)
from outlast.clock import Clock
from outlast.documents import Document, Shape, Shapes, Wish
from outlast.fold import SessionState, TurnState
from outlast.gate import Gate
from outlast.processes import Process, Processes
from outlast.recovery import Abilities, Step
from outlast.rules import Rule
from outlast.tool import Tool
from outlast.workspace import Workspace

__all__ = [
    "MAIN",
    "SIDE",
    "Adapter",
    "Agent",
    "Attachment",
    "Attempt",
    "Budget",
    "Calls",
    "Deny",
    "Dialogue",
    "Door",
    "Gateway",
    "HookAsk",
    "Joined",
    "Let",
    "Look",
    "ModelAsk",
    "Opening",
    "Parked",
    "Places",
    "Process",
    "Processes",
    "Resolved",
    "Send",
    "Served",
    "Steers",
    "TakenSteer",
    "Talk",
    "ToolAsk",
    "ToolResult",
    "TurnResult",
    "WaitAsk",
    "Waiting",
    "is_passing",
]

Look: TypeAlias = Literal["read", "find", "list"]
"""What a loop sees of files: `outlast.workspace.Files`, but what changes them."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended in the harness."""

    status: Literal["done", "failed"]
    result: object = None
    """JSON; of a conversation usually the last text."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """All that the turn does is wait: nothing of it runs, and the worker is free until one of its waits may end."""


@dataclass(frozen=True, slots=True)
class TakenSteer:
    """A steer that waits for the running turn."""

    input: str
    text: str


class Steers(Protocol):
    """Steers that arrived for this turn and are in no model request yet."""

    def waiting(self) -> Sequence[TakenSteer]: ...

    def arrivals(self) -> AsyncIterator[TakenSteer]:
        """Those waiting, then each as it comes; ends with the attempt."""
        ...

    def carried(self, input_id: str, lane: str = "") -> None:
        """The next model intent, of `lane` if one is named, carries this steer: that commit consumes its input."""
        ...


@dataclass(frozen=True, slots=True)
class HookAsk:
    """A harness's hook call, as its adapter has understood it."""

    event: Literal["hello", "before", "after", "other"]
    harness_id: str = ""
    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: ToolResult | None = None
    cwd: str = ""  # where its shell has gone, if it says so


class Dialogue(Protocol):
    """What the gateway must know of one harness: how it speaks, beside the model dialect."""

    @property
    def dialect(self) -> str:
        """`anthropic`, `openai-responses`, `openai-chat`."""
        ...

    @property
    def greets(self) -> bool:
        """Its hooks say hello before its first model request; without the hello no model request is let through."""
        ...

    @property
    def retries(self) -> bool:
        """After a failure of the provider that may pass it would ask again by itself; the attempt ends instead."""
        ...

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        """Which sequence of calls a request belongs to.

        `main`; `side:` and a word for requests beside the conversation (a compaction); or a text that is the same for
        all requests of one sub-agent in this attempt. Header names are lower-case.
        """
        ...

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request without what the harness adds by being resumed: what would have been sent had nobody died."""
        ...

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        """Why this request must not go upstream (tools of ours are missing, say), or None."""
        ...

    async def recorded(self, *, tool: bool = False) -> None:
        """Return once what the harness has written so far is mirrored, if the log must have that before it goes on.

        Awaited before each model request is looked at, and before each `tool` of the harness's own may begin.
        """
        ...

    def call_of(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """The harness's id of an application's MCP call that came without it; empty: it may not run; None: no id."""
        ...

    def read_hook(self, event: str, payload: Mapping[str, Any]) -> HookAsk: ...

    def hook_answer(self, ask: HookAsk, verdict: Let | Deny | None) -> Mapping[str, Any]:
        """The JSON that the harness expects."""
        ...


@dataclass(frozen=True, slots=True)
class Door:
    """Where a harness reaches the gateway in one attempt; every address needs `token`."""

    base_url: str
    token: str
    hooks_url: str
    tools_url: str


class Gateway(Protocol):
    """Our HTTP server between a harness and its model, its tools and its hooks."""

    def admit(
        self, attempt: "Attempt", dialogue: Dialogue, token: str = ""
    ) -> AbstractAsyncContextManager[Door]:
        """Let the harness of `attempt` in by `token`, or a fresh one, until the context ends; then it is refused."""
        ...

    async def address(self) -> str:
        """Where it listens, `http://127.0.0.1:<port>`."""
        ...


@dataclass(frozen=True, slots=True)
class Places:
    """Where on this machine the session's files are, and the shell whose commands outlive the harness, if there is."""

    cwd: Path
    home: Path
    shell: str = ""


@dataclass(frozen=True, slots=True)
class Talk:
    """Where the turns before left the conversation of a loop: its newest answer, and what came after that."""

    messages: Sequence[Any]
    """What the model was asked, as canonical messages."""
    answer: Mapping[str, Any]
    tools: Sequence[tuple[str, Mapping[str, Any], ToolResult]]
    """Name, arguments and end of each tool call after the answer, in order."""
    by_id: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """The ends of those of them that are known by an id of the model's (`Calls.settle_model`)."""


class Attempt(Protocol):
    """One worker's try at a turn: everything an adapter and the gateway may touch."""

    @property
    def tenant(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def fence(self) -> int: ...
    @property
    def state(self) -> SessionState:
        """Everything written so far in this attempt included; read only."""
        ...

    @property
    def turn(self) -> TurnState: ...
    @property
    def prompt(self) -> str: ...
    async def attachments(self) -> Sequence[Attachment]:
        """The files that came with the prompt, each of a kind that the adapter takes (`Abilities.attachments`)."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def plan(self) -> Sequence[Step]:
        """Steps of recovery that are left: about calls that the harness runs. Those of the worker are settled."""
        ...

    @property
    def resumed(self) -> bool:
        """The turn was begun by an earlier attempt."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def calls(self) -> Calls: ...
    @property
    def steers(self) -> Steers: ...
    @property
    def gate(self) -> Gate: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def gateway(self) -> Gateway: ...
    @property
    def processes(self) -> Processes: ...
    @property
    def places(self) -> Places: ...

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        """Record lines that the harness appended to a file of its own, below HOME."""
        ...

    async def mirrored(self) -> Mapping[str, Sequence[str]]:
        """Every mirrored file of the session: path below HOME to its lines."""
        ...

    async def requests(self) -> Mapping[str, Sequence[Any]]:
        """The canonical messages of the newest model request of each lane of the turn."""
        ...

    async def talk(self) -> Talk | None:
        """Where the turns before left the conversation of a loop; None if no model has answered it yet."""
        ...

    async def settle(self, call: int, result: ToolResult) -> None:
        """Settle a call of the plan. Durable."""
        ...

    async def arguments(self, call: int) -> Mapping[str, Any]:
        """The arguments of a tool call of the turn, as the model gave them."""
        ...

    async def look(self, what: Look, path: str, *, lane: str) -> Any:
        """A loop looks at the files of the workspace (`outlast.workspace.Files`): a call of its lane.

        Returns JSON, the same in every attempt: of `read` `{"text": …}` or `{"base64": …}`, of `find` `{"entry": …}`,
        of `list` `{"entries": …}`; `{"missing": true}` where there is nothing, or `{"error": …}`, a text for people.

        Raises:
            WorkspaceError: the session has no workspace.
        """
        ...

    async def read_document(self, name: str, *, lane: str) -> Document:
        """A loop looks at a document: a call of its lane, the same in every attempt."""
        ...

    async def edit_document(self, wish: Wish, *, lane: str) -> Document:
        """A loop edits a document: a call of its lane. Durable, in one commit with what the call returns.

        Raises:
            BadEdit: nothing was changed; the same in every attempt.
        """
        ...

    async def outcome(self, call: int) -> ToolResult:
        """How a settled tool call ended: of the turn, or of the one before it if that was cut short."""
        ...

    async def answers(self) -> Mapping[int, Mapping[str, Any]]:
        """The answers of finished model calls, by call: of the turn, and of the one before it if that was cut short."""
        ...


class Adapter(Protocol):
    """One kind of harness."""

    @property
    def name(self) -> str: ...

    @property
    def abilities(self) -> Abilities: ...

    def versions(self) -> Mapping[str, str]:
        """Of the harness and of what drives it, for the attempt's record.

        Raises:
            HarnessMissing: its program is not here; the agent is not offered by this worker as long as that is so.
        """
        ...

    def settings(self) -> Mapping[str, Any]:
        """What a new session of this agent records: model, flags. JSON."""
        ...

    def check(self) -> Sequence[str]:
        """Warnings about this machine's installation. Raises HarnessMissing when it cannot run at all."""
        ...

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        """What a tool call with the harness's name for the tool means."""
        ...

    async def advance(self, attempt: Attempt) -> TurnResult | Waiting:
        """Carry the turn to its end: begin it, or go on where the log stops, without a new user message."""
        ...


@dataclass(frozen=True, slots=True)
class Agent:
    """What an application names: a harness with its tools and where it works."""

    name: str
    adapter: Adapter
    tools: Sequence[Tool] = ()
    rules: Sequence[Rule] = ()
    """Which tool calls may run, the harness's own included; the strictest that fits decides."""
    documents: Shapes = field(default_factory=dict[str, Shape | type])
    """What the documents of its sessions must be; of one that is not named, any JSON."""
    workspace: Workspace | None = None
    """None: sessions say where they work (`local(cwd)`)."""
    budget: Budget | None = None
    recovery_budget: int = 5
    """Attempts in a row without a settled call after which a turn is parked as stuck."""
    provider_retries: int = 60
    """Failures of the provider in a row that may pass, about an hour's, before a turn is stuck; a budget apart."""
