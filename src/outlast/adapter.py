"""The port between outlast and an agent program.

An `Adapter` knows one harness and holds no durability: everything that must outlive the process goes through the
`Attempt` that it is given. Two families implement it: a loop in Python, whose calls come to `Calls` directly, and a
program, whose calls come to `Calls` through the gateway.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from outlast.clock import Clock
from outlast.fold import SessionState, TurnState
from outlast.gate import Gate
from outlast.records import CallIntent, Usage
from outlast.records.kinds import OnDoubt, OutcomeStatus, Policy, RunsIn
from outlast.recovery import Abilities, Step
from outlast.tool import Tool
from outlast.workspace import Workspace


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended in the harness."""

    status: Literal["done", "failed"]
    result: object = None
    """JSON; of a conversation usually the last text."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a tool call of the model means to us."""

    name: str
    runs_in: RunsIn
    policy: Policy
    on_doubt: OnDoubt = "tell"
    key_ttl_s: float = 0.0
    spawns: str = ""
    """Not empty when it begins a sub-agent whose calls are journalled one by one: text that the sub-agent's first
    request holds."""


@dataclass(frozen=True, slots=True)
class ToolAsk:
    """A tool call in a model's answer."""

    harness_id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelAsk:
    """A model request as the gateway or a loop has understood it."""

    lane: str
    model: str
    match: str
    """Canonical hash: two requests with the same are the same request."""
    frame: Mapping[str, Any]
    """Everything of the canonical request but its messages."""
    messages: Sequence[Any]
    """The canonical messages."""
    asked_by: int = 0


@dataclass(frozen=True, slots=True)
class Served:
    """The log has the answer; nothing goes upstream."""

    call: int
    answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the provider, then `settle_model` or `void_model`."""

    call: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The same request is under way in this attempt: wait for `answer`, which is what `settle_model` was given."""

    call: int
    answer: Callable[[], Awaitable[Mapping[str, Any] | None]]
    """None when that try came to nothing: ask `open_model` again."""


@dataclass(frozen=True, slots=True)
class Parked:
    """Nothing may go upstream: the turn is parked, or this attempt is over."""

    why: str


Opening: TypeAlias = Served | Send | Joined | Parked


@dataclass(frozen=True, slots=True)
class Let:
    """The tool may run; that it may have begun is durable."""

    call: int
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Deny:
    """The tool must not run; `text` says why, for the model. With `settled` the log knows how the call ended."""

    text: str
    settled: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a tool call ended."""

    status: OutcomeStatus
    value: object
    """JSON: what the model reads, text or blocks."""


class Calls(Protocol):
    """The calls of one attempt. Each method that says *durable* returns only once the World has acknowledged.

    Order, for every policy: intent, then effect, then outcome, then use of the result. `safe` and model intents are
    written and not waited for. Any method may raise `AttemptLost` or `TurnStopped`, which must not be caught.
    """

    async def open_model(self, ask: ModelAsk) -> Opening:
        """Find the request in the log or write its intent.

        A request that matches a finished call not yet served in this attempt is served from the log, the n-th of
        equal requests by the n-th call; one that matches an open call is that call, asked again. One that matches
        nothing while finished calls of its lane that are not known to have reached the harness lie beyond, and
        something other than `safe` hangs on them, parks the turn as `diverged`.
        """
        ...

    async def settle_model(
        self, call: int, answer: Mapping[str, Any], asks: Sequence[ToolAsk], usage: Usage | None
    ) -> None:
        """Write the answer and, in the same commit, an intent for every tool call in it. Durable."""
        ...

    async def void_model(self, call: int, reason: str, usage: Usage | None = None) -> None:
        """The answer was cut or refused: what it showed is void and its cost is recorded. The call stays open."""
        ...

    async def start_tool(self, harness_id: str, name: str, arguments: Mapping[str, Any]) -> Let | Deny:
        """The harness asks whether it may run a tool itself. `Let` only for a call that an answer in the log asked
        for, that is not settled, and that this attempt's plan or policy lets run. Durable unless `safe`."""
        ...

    async def settle_tool(self, harness_id: str, result: ToolResult) -> None:
        """A tool that the harness ran has ended. Durable. A call that is settled already stays as it is."""
        ...

    async def run_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        harness_id: str = "",
        lane: str = "main",
    ) -> ToolResult:
        """Run one of the application's tools in the worker, or read its outcome from the log. Durable."""
        ...

    def result_of(self, harness_id: str) -> ToolResult | None:
        """What the model must read of this tool call, where the harness may say otherwise: calls in doubt, interrupted
        or cancelled, of this turn or earlier ones, and what `correct` was given. The gateway puts it into every request."""
        ...

    def correct(self, harness_id: str, result: ToolResult) -> None:
        """The harness may tell the result of this settled call otherwise (it was denied a second run, say): from now on
        the model reads `result`."""
        ...

    def intent_of(self, harness_id: str) -> CallIntent | None: ...

    def show(self, call: int, kind: Literal["text", "thinking", "output"], text: str) -> None:
        """Show a piece of an open call to watchers."""
        ...

    def delivered(self, calls: Sequence[int]) -> None:
        """The answers of these model calls have reached the harness: handed over whole in this attempt, or known to be
        in its own files. They are not served again; until then an equal request gets the same answer."""
        ...


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

    def carried(self, input_id: str) -> None:
        """The next model intent carries this steer: its input is consumed by that commit."""
        ...


class Process(Protocol):
    """A harness process under supervision: it and all its descendants die with the worker."""

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    def lines(self) -> AsyncIterator[bytes]:
        """Lines of its standard output, without their ends; up to 64 MB each."""
        ...

    async def wait(self) -> int: ...

    async def kill(self) -> None:
        """SIGKILL to the whole tree; returns once it is proved dead."""
        ...

    def errors(self) -> str:
        """The last 8 KB of its standard error."""
        ...


class Processes(Protocol):
    """How an adapter starts its harness."""

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path
    ) -> AbstractAsyncContextManager[Process]: ...


@dataclass(frozen=True, slots=True)
class HookAsk:
    """A harness's hook call, as its adapter has understood it."""

    event: Literal["hello", "before", "after", "other"]
    harness_id: str = ""
    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: ToolResult | None = None


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

    def lane_of(self, headers: Mapping[str, str], request: Mapping[str, Any]) -> str:
        """`main`; `side:` and a word for requests beside the conversation (a compaction); or a text that is the same for
        all requests of one sub-agent in this attempt. Header names are lower-case."""
        ...

    def strip(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request without what the harness adds by being resumed: what would have been sent had nobody died."""
        ...

    def complaint(self, lane: str, request: Mapping[str, Any]) -> str | None:
        """Why this request must not go upstream (tools of ours are missing, say), or None."""
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

    def admit(self, attempt: "Attempt", dialogue: Dialogue) -> AbstractAsyncContextManager[Door]:
        """Let the harness of `attempt` in until the context ends; afterwards its token is refused."""
        ...


@dataclass(frozen=True, slots=True)
class Places:
    """Where on this machine the session's files are."""

    cwd: Path
    home: Path
    scratch: Path
    """A directory of this attempt only, empty at its start."""


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
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def plan(self) -> Sequence[Step]:
        """What is left for the adapter of the recovery plan: steps about calls that the harness runs itself.
        Calls that the worker runs are settled already."""
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

    async def settle(self, call: int, result: ToolResult) -> None:
        """Settle a call of the plan. Durable."""
        ...

    async def arguments(self, call: int) -> Mapping[str, Any]:
        """The arguments of a tool call of the turn, as the model gave them."""
        ...

    async def outcome(self, call: int) -> ToolResult:
        """How a settled tool call of the turn ended."""
        ...

    async def answers(self) -> Mapping[int, Mapping[str, Any]]:
        """The answers of the turn's finished model calls, by call."""
        ...


class Adapter(Protocol):
    """One kind of harness."""

    @property
    def name(self) -> str: ...

    @property
    def abilities(self) -> Abilities: ...

    def versions(self) -> Mapping[str, str]:
        """Of the harness and of what drives it, for the attempt's record."""
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

    async def advance(self, attempt: Attempt) -> TurnResult:
        """Carry the turn to its end: begin it, or go on where the log stops, without a new user message."""
        ...


@dataclass(frozen=True, slots=True)
class Agent:
    """What an application names: a harness with its tools and where it works."""

    name: str
    adapter: Adapter
    tools: Sequence[Tool] = ()
    workspace: Workspace | None = None
    """None: sessions say where they work (`local(cwd)`)."""
    recovery_budget: int = 5
    """Attempts in a row without a settled call after which a turn is parked as stuck."""
