"""The calls of one attempt, as adapters and the gateway make them: the promises of `Calls`, and what they speak of."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from outlast.inquiry import Inquiry
from outlast.records import CallIntent, Usage
from outlast.records.kinds import OnDoubt, OutcomeStatus, Policy, RunsIn
from outlast.tool import Tool
from outlast.workspace import Ran

MAIN: Final = "main"
"""The lane of the conversation itself."""
SIDE: Final = "side:"
"""Begins the names of lanes beside the conversation, which are kept as the harness's adapter names them."""

_PASSING: Final = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a tool call ended."""

    status: OutcomeStatus
    value: object
    """JSON: what the model reads, text or blocks."""


@dataclass(frozen=True, slots=True)
class ShellUse:
    """A call that the harness runs by a shell of its workspace (`outlast.workspace.LendsShell`)."""

    runs: Callable[[Sequence[str]], bool]
    """Whether a shell that the harness begins with these arguments is this call's."""
    told: Callable[[Ran], ToolResult]
    """How the call ended, as the harness itself would have said it."""
    timeout_s: float = 0.0
    """By when the harness itself has ended it; 0: it never does."""
    patience_s: float = 0.0
    """After how long without output an attempt that waits for its end ends it; 0: never."""
    goes_on: Callable[[ToolResult], str] | None = None
    """By which name the harness goes on with the command of a call that ended so; None, empty: it has ended too."""
    follows: str = ""
    """The name of a command that a call before has begun: this one runs none, and waits for its end."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a tool call of the model means to us."""

    name: str
    runs_in: RunsIn
    policy: Policy
    on_doubt: OnDoubt = "tell"
    key_ttl_s: float = 0.0
    spawns: str = ""
    """Not empty when it begins a sub-agent whose calls are in the log one by one: a text of its first request."""
    verifier: Tool | None = None
    """Of a call that the harness runs: what can be asked whether it took effect, and what makes it good. It is not run
    itself."""
    inquiry: Inquiry | None = None
    """Of a call that the harness runs: how the workspace shows whether it took effect. It is used where the policy is
    `verify`; a `verifier` that has a `verify` comes first."""
    unasked: bool = False
    """Of a call that the harness runs: it asks nobody before it does, neither by a hook nor for approval. Whoever hands
    it the answer that holds such a call lets it begin (`Calls.begin_unasked`)."""
    shell: ShellUse | None = None
    """Of a call that the harness runs by a shell: what makes it outlive the harness where the workspace can."""


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
    placed: bool = False
    """A loop's own request: it is the next call of its lane, or the turn has diverged."""
    unseen: bool = False
    """The harness asks its model past us: nobody here knows whether that still answers."""


@dataclass(frozen=True, slots=True)
class WaitAsk:
    """Something that a loop waits for."""

    name: Literal["sleep", "signal", "person"]
    about: Mapping[str, Any]
    """What was asked for, as JSON: the same in every attempt."""
    for_s: float | None = None
    """Seconds after which the wait ends by itself, counted from when it began; None never."""


@dataclass(frozen=True, slots=True)
class SpawnAsk:
    """A session that a loop spawns, and what it asks it."""

    agent: str
    prompt: str
    adapter: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the child records: the agent's own, and those that were given."""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Those that were given: the same in every attempt."""
    workspace: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cwd: str = ""
    placement: str = "any"
    documents: Mapping[str, int] = field(default_factory=dict[str, int])
    for_s: float | None = None
    """Seconds after which nobody waits for it any more; None never."""


@dataclass(frozen=True, slots=True)
class Served:
    """The log has the answer; nothing goes upstream."""

    call: int
    answer: Mapping[str, Any]
    refused: bool = False
    """It is a refusal (`refuse_model`) and no answer."""


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


def is_passing(status: int) -> bool:
    """Whether an error of a provider with this HTTP status may be another answer later, to the same request."""
    return status in _PASSING or status >= 500


def _nobody(pauses: int) -> None:
    """Nobody asks."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be used up before a person is asked: the turn is parked, and `Session.retry` lets it go on.

    Looked at before each call: what runs is not cut off, so the last may go beyond. None: no limit.
    """

    turn_usd: float | None = None
    turn_tokens: int | None = None
    """Tokens in and out, those read from and written to a cache included."""
    turn_calls: int | None = None
    """Model and tool calls."""
    turn_s: float | None = None
    """Seconds since the turn was opened, waits included."""
    session_usd: float | None = None
    """Of all turns of the session."""
    session_tokens: int | None = None
    tenant_usd: float | None = None
    """Of all sessions of the tenant, in this period."""
    tenant_tokens: int | None = None
    tenant_calls: int | None = None
    tenant_s: float | None = None
    """Seconds for which workers advanced its turns."""
    tenant_period: Literal["day", "month"] = "month"
    """Of the calendar, UTC. A turn that has reached a limit goes on by itself when the next begins."""


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

    async def refuse_model(self, call: int, refusal: Mapping[str, Any], usage: Usage | None = None) -> None:
        """The provider refuses the request for good: the call ends as an error that a loop may act on. Durable."""
        ...

    async def void_model(
        self, call: int, reason: str, usage: Usage | None = None, *, retry_after_s: float = 0.0
    ) -> None:
        """The answer was cut or refused: what it showed is void and its cost is recorded. The call stays open.

        If the attempt then ends for that, the next begins no sooner than the provider asked, `retry_after_s` from now.
        """
        ...

    async def begin_unasked(self, call: int) -> None:
        """The answer of a model call is about to reach the harness: let those of its calls begin that run unasked.

        Awaited before an answer is handed over, each time. Returns once each of them may run in this attempt and that
        it may have begun is durable, unless `safe`.

        Raises:
            TurnStopped: one of them must not run, and none has begun for this. What a rule denies is settled; what a
                rule wants asked parks the turn. The answer must not be handed over; the attempt ends, and the next
                tells the model how each call of the answer ended.
        """
        ...

    async def start_tool(
        self, harness_id: str, name: str, arguments: Mapping[str, Any], *, cwd: str = ""
    ) -> Let | Deny:
        """The harness asks whether it may run a tool itself.

        `Let` only for a call that an answer in the log asked for, that is not settled, and that this attempt's plan or
        policy lets run. Durable unless `safe`.

        Args:
            cwd: where the harness is; empty: where it was started.
        """
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
        lane: str = MAIN,
    ) -> ToolResult:
        """Run one of the application's tools in the worker, or read its outcome from the log. Durable."""
        ...

    async def wait(
        self, ask: WaitAsk, *, lane: str = MAIN, pausing: Callable[[int], None] = _nobody
    ) -> ToolResult:
        """Wait until the time is over, the signal is there or a person has answered; for days, if it must be.

        `about["signal"]` names the signal; a signal ends one wait, the first that waits for it. A wait whose time is
        over ends as `interrupted`, a `sleep` as `ok`. Durable.

        `pausing` is told 1 when nothing can end the wait now, and -1 when something may: while all that a turn does is
        pause, its adapter gives it up with `Waiting`, and an attempt to come waits on.
        """
        ...

    async def spawn(
        self, ask: SpawnAsk, *, lane: str = MAIN, pausing: Callable[[int], None] = _nobody
    ) -> ToolResult:
        """Open a session, ask it, and wait until its turn has ended: a wait like others.

        The child's id comes from the call: the same child in every attempt. Its intent is durable before the child is
        opened. Ends as `ok` with its result, as an `error` with `{"status", "error"}` where the turn failed, was
        cancelled, or the child cannot be; as `interrupted` when the time was over. What the child cost counts as this
        turn's. A spawn that ends otherwise than by its child recalls it.

        Raises:
            BadInput: there is no agent, or the prompt cannot be sent; nothing was opened.
        """
        ...

    async def value(self, name: str, make: Callable[[], object], *, lane: str = MAIN) -> Any:
        """What `make` returned when the turn first came here: JSON, the same in every attempt.

        Durable before any effect that is not `safe` begins.

        Raises:
            ToolError: `make` failed when the turn first came here.
        """
        ...

    async def begin_again(self, state: object) -> None:
        """The loop is about to begin again with `state`, JSON, in place of its calls so far. Durable.

        From here on the log has nothing ahead in any lane. The turn's budgets, ordinals and steers go on.

        Raises:
            BadInput: a call is open, or the state is not JSON; nothing was changed.
            TurnStopped: the loop has not made every call that the log has; the turn is parked as diverged.
        """
        ...

    async def begun_with(self) -> Any:
        """What the loop began again with, when it last did in this turn; None if it never has."""
        ...

    def ahead(self, lane: str = MAIN) -> CallIntent | None:
        """What the log has next in a lane that a loop walks again; None where the loop goes on anew."""
        ...

    def rewind(self, lane: str) -> None:
        """What the log has in this lane and those within it is ahead again: the loop does it once more."""
        ...

    def pass_by(self, lane: str) -> None:
        """What the log has in this lane and those within it need not be made again: how it all ended is known."""
        ...

    @property
    def ending(self) -> bool:
        """The attempt is over, or about to be."""
        ...

    async def walked(self) -> None:
        """A loop has come to its end: it must have made every call that the log has of its turn.

        Raises:
            TurnStopped: it has not; the turn is parked as diverged.
        """
        ...

    def result_of(self, harness_id: str) -> ToolResult | None:
        """What the model must read of this tool call, where the harness may say otherwise.

        Calls in doubt, interrupted or cancelled, of this turn or earlier ones, and what `correct` was given. The
        gateway puts it into every request.
        """
        ...

    def correct(self, harness_id: str, result: ToolResult, *, told: bool = False) -> None:
        """From now on the model reads `result` of this settled call, which the harness may tell otherwise.

        It was denied a second run, say. Once `told` in a request it stands in the log, for turns to come.
        """
        ...

    def intent_of(self, harness_id: str) -> CallIntent | None: ...

    def show(self, call: int, kind: Literal["text", "thinking", "output"], text: str) -> None:
        """Show a piece of an open call to watchers."""
        ...

    def delivered(self, calls: Sequence[int]) -> None:
        """The answers of these model calls have reached the harness.

        They were handed over whole in this attempt, or are known to be in its own files. They are not served again;
        until then an equal request gets the same answer.
        """
        ...
