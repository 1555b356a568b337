"""What an application's tool promises, and what it is given."""

import copy
import functools
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast, get_args, get_type_hints, overload

import msgspec

from outlast.errors import BadTool
from outlast.records.kinds import OnDoubt, Policy

if TYPE_CHECKING:  # whoever makes tools need not wait for what reads documents and files
    from outlast.documents import Docs
    from outlast.workspace import CallSite

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_MISSING: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Done:
    """`verify` found that the call took effect; `result` becomes its outcome."""

    result: object = None


@dataclass(frozen=True, slots=True)
class NotDone:
    """`verify` found that the call took no effect: it is run."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """`verify` could not find out: the call is in doubt."""

    note: str = ""


Verdict: TypeAlias = Done | NotDone | Unsure


class ToolFailed(Exception):
    """Raise it in a tool with a text that the model should read: the call ends as an error with exactly that text.

    Any other exception ends the call as an error too, with its type and message.
    """


class TryAgain(ToolFailed):
    """Raise it in a tool that asked for `retries` when nothing happened and the same call may do better later.

    It is the tool's word that this try had no effect, and recovery believes it: never raise it of a request that may
    have arrived. After the last try the call ends as an error with the text.

    Args:
        text: why, for watchers and in the end for the model.
        after_s: no sooner than so many seconds from now, up to a minute.
    """

    def __init__(self, text: str, *, after_s: float = 0.0) -> None:
        self.after_s = after_s
        super().__init__(text)


class ToolIO(Protocol):
    """What a tool is given besides its arguments."""

    @property
    def key(self) -> str:
        """The same text in every attempt at this call, and no other's: an idempotency key for outside systems."""
        ...

    @property
    def compensates(self) -> str:
        """Of a compensation: the `key` that the call had which it makes good; empty for any other call."""
        ...

    @property
    def session(self) -> str:
        """Id of the session."""
        ...

    @property
    def turn(self) -> int:
        """Number of the turn in the session."""
        ...

    @property
    def call(self) -> int:
        """Number of the call in the session."""
        ...

    @property
    def attempt(self) -> int:
        """Fence of the attempt: grows with every take-over."""
        ...

    @property
    def docs(self) -> "Docs":
        """The session's documents. What this call edits takes effect with its outcome, or not at all."""
        ...

    @property
    def workspace(self) -> "CallSite":
        """The session's files and commands. What this call changes of them is kept with its outcome, or not at all.

        Its every use raises `WorkspaceError` where the session has none that can be had.
        """
        ...

    def show(self, text: str) -> None:
        """Show output to watchers while the tool runs. Void if the call is run again."""
        ...


ToolFunction: TypeAlias = Callable[..., Awaitable[object]]
VerifyFunction: TypeAlias = Callable[..., Awaitable[Verdict]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call, with what recovery may do about it. Made by `tool`."""

    name: str
    description: str
    function: ToolFunction
    arguments: type[msgspec.Struct]
    """The arguments as a struct: validates what a model sends."""
    schema: Mapping[str, Any]
    """JSON schema (2020-12) of the arguments."""
    policy: Policy = "never"
    on_doubt: OnDoubt = "tell"
    verify: VerifyFunction | None = None
    key_ttl_s: float = 0.0
    """How long the outside honours `io.key`; 0 for ever."""
    timeout_s: float = 600.0
    retries: int = 0
    """How often a call is tried once more when a try raised `TryAgain`."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    compensate: "Tool | None" = None
    """What makes a call good of which nobody knows whether it took effect."""
    within: bool = False
    """It changes nothing but the workspace: where that is rebuilt from the log, an open call is just run again."""
    stands_in: bool = False
    """It stands in the place of a tool of the harness's own, and the model calls it as that (`outlast.offering`)."""

    async def call(self, io: ToolIO, arguments: Mapping[str, Any]) -> object:
        """Run it. Raises whatever the function raises, `ToolFailed` for arguments that do not fit."""
        return await self.function(io, **self._convert(arguments))

    async def ask(self, io: ToolIO, arguments: Mapping[str, Any]) -> Verdict:
        """Ask its `verify` whether the call took effect; anything it raises or answers wrongly is `Unsure`."""
        if self.verify is None:
            return Unsure("the tool has no verify")
        try:
            verdict = await self.verify(io, **self._convert(arguments))
        except Exception as error:  # noqa: BLE001 - any failure to find out is not knowing, and is recorded as such
            return Unsure(f"verify raised {type(error).__name__}: {error}")
        if isinstance(verdict, (Done, NotDone, Unsure)):  # pyright: ignore[reportUnnecessaryIsInstance] - users' code
            return verdict
        return Unsure(f"verify returned {type(verdict).__name__}, not Done, NotDone or Unsure")

    def given(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the function is given for these arguments, as JSON: converted, and with its defaults."""
        try:
            return msgspec.to_builtins(msgspec.convert(arguments, self.arguments, str_keys=True))
        except (msgspec.ValidationError, TypeError):  # they do not fit, and it is not called with them
            return arguments

    def undone_with(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of the arguments of a call of this tool those that its compensation takes."""
        taken = () if self.compensate is None else self.compensate.arguments.__struct_fields__
        return {name: value for name, value in self.given(arguments).items() if name in taken}

    def _convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            fitting = msgspec.convert(arguments, self.arguments, str_keys=True)
        except msgspec.ValidationError as error:
            raise ToolFailed(f"The arguments do not fit {self.name}: {error}") from None
        return {name: getattr(fitting, name) for name in self.arguments.__struct_fields__}


@overload
def tool(function: ToolFunction, /) -> Tool: ...
@overload
def tool(
    *,
    replay: Policy = "never",
    verify: VerifyFunction | None = None,
    on_doubt: OnDoubt = "tell",
    key_ttl_s: float = 0.0,
    timeout_s: float = 600.0,
    retries: int = 0,
    name: str | None = None,
    compensate: Tool | None = None,
) -> Callable[[ToolFunction], Tool]: ...
def tool(  # noqa: PLR0913 - each keyword is a promise of its own
    function: ToolFunction | None = None,
    /,
    *,
    replay: Policy = "never",
    verify: VerifyFunction | None = None,
    on_doubt: OnDoubt = "tell",
    key_ttl_s: float = 0.0,
    timeout_s: float = 600.0,
    retries: int = 0,
    name: str | None = None,
    compensate: Tool | None = None,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of an asynchronous function `(io, typed arguments …) -> JSON`.

    The model reads the function's docstring, and the annotation of each argument as a JSON schema;
    `Annotated[int, msgspec.Meta(description="…", ge=1)]` says more about one.

    Args:
        replay: what recovery may do when it is not known how a call ended: `never` run it again (the default),
            `verify` first, run it again under the same `io.key` (`keyed`), or just run it again (`safe`).
        verify: asynchronous, takes the same arguments and returns `Done(result)`, `NotDone()` or `Unsure()`. Implies
            `replay="verify"`.
        on_doubt: `tell` the model that it may have run, or `ask` a person: the turn is parked until somebody decides
            (`Session.decide`, `outlast decide`).
        key_ttl_s: seconds for which the outside honours `io.key`; 0 for ever.
        timeout_s: seconds after which a try ends as an error.
        retries: how often a call is tried once more when it raised `TryAgain`, after a pause that grows from half a
            second to a minute. No other exception is tried again.
        name: what the model calls it, by default the function's name.
        compensate: a tool, made by `tool` with a policy of its own, that makes good a call in doubt: it takes arguments
            of the same names, all or some. With `on_doubt="tell"` it runs at once and the model is told so; with `ask`
            a person may choose it. It need not be among the agent's tools. Where it does not end well the call is in
            doubt as it was.

    Raises:
        BadTool: it is not asynchronous, lacks `io` or annotations, or what it promises does not fit together.
    """
    around = _locals_of_caller()

    def make(inner: ToolFunction) -> Tool:
        called = _checked_name(name or getattr(inner, "__name__", ""))
        arguments = _argument_struct(called, inner, around)
        return _sound(
            Tool(
                name=called,
                description=inspect.getdoc(inner) or called,
                function=inner,
                arguments=arguments,
                schema=_schema(called, arguments),
                policy=_policy(called, replay, verify),
                on_doubt=on_doubt,
                verify=verify,
                key_ttl_s=key_ttl_s,
                timeout_s=timeout_s,
                retries=retries,
                compensate=compensate,
            )
        )

    return make if function is None else make(function)


def _locals_of_caller() -> Mapping[str, Any]:
    """What is defined where `tool` is used: annotations that are text may name a type of the function around it."""
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    return {} if caller is None else dict(caller.f_locals)


def _checked_name(called: str) -> str:
    if not _NAME.fullmatch(called):
        reason = "its name must be 1 to 48 of A-Z, a-z, 0-9 and '_', and not begin with a digit"
        raise BadTool(tool=called, reason=reason)
    return called


def _policy(called: str, replay: Policy, verify: VerifyFunction | None) -> Policy:
    if replay not in get_args(Policy):
        raise BadTool(tool=called, reason=f"replay={replay!r} is none of {', '.join(get_args(Policy))}")
    if replay == "verify" and verify is None:
        raise BadTool(tool=called, reason="replay='verify' needs verify=")
    if verify is not None and replay not in {"never", "verify"}:
        raise BadTool(tool=called, reason=f"verify= does not go with replay={replay!r}")
    return "verify" if verify is not None else replay


def _sound(made: Tool) -> Tool:
    """Return `made` if what it promises can be kept."""
    if made.on_doubt not in get_args(OnDoubt):
        raise BadTool(
            tool=made.name, reason=f"on_doubt={made.on_doubt!r} is none of {', '.join(get_args(OnDoubt))}"
        )
    if not 0 < made.timeout_s < math.inf:
        raise BadTool(tool=made.name, reason=f"timeout_s={made.timeout_s!r} is no time; 600.0 is the default")
    if not 0 <= made.key_ttl_s < math.inf:
        raise BadTool(tool=made.name, reason=f"key_ttl_s={made.key_ttl_s!r} is no time; 0 means for ever")
    if made.retries < 0:
        raise BadTool(tool=made.name, reason=f"retries={made.retries!r} is no number of times")
    if made.verify is not None:
        _check_verify(made, made.verify)
    if made.compensate is not None:
        _check_compensation(made, made.compensate)
    return made


def _check_compensation(made: Tool, other: Tool) -> None:
    if not isinstance(other, Tool):  # pyright: ignore[reportUnnecessaryIsInstance] - users' code
        raise BadTool(
            tool=made.name, reason="compensate= must be a tool: decorate that function with @tool too"
        )
    if made.policy == "safe":
        raise BadTool(
            tool=made.name, reason="compensate= does not go with replay='safe': it is never in doubt"
        )
    if other.compensate is not None:
        reason = (
            f"its compensation {other.name} has one of its own: verify= or on_doubt='ask' may settle that"
        )
        raise BadTool(tool=made.name, reason=reason)
    takes, needs = (msgspec.structs.fields(one.arguments) for one in (made, other))
    given = {one.name for one in takes}
    lacking = [one.name for one in needs if one.required and one.name not in given]
    if lacking:
        reason = f"its compensation {other.name} needs {', '.join(lacking)}, which it does not take itself"
        raise BadTool(tool=made.name, reason=reason)


def _check_verify(made: Tool, verify: VerifyFunction) -> None:
    if not inspect.iscoroutinefunction(verify):
        raise BadTool(tool=made.name, reason="its verify must be an `async def`")
    try:
        inspect.signature(verify).bind(None, **dict.fromkeys(made.arguments.__struct_fields__))
    except TypeError as error:
        raise BadTool(tool=made.name, reason=f"its verify must take the same arguments ({error})") from None


def _argument_struct(called: str, function: ToolFunction, around: Mapping[str, Any]) -> type[msgspec.Struct]:
    if not inspect.iscoroutinefunction(function):
        raise BadTool(tool=called, reason="it must be an `async def`")
    first, *others = [*inspect.signature(function).parameters.values(), None]
    if first is None or first.name != "io" or first.kind is inspect.Parameter.KEYWORD_ONLY:
        raise BadTool(tool=called, reason="its first parameter must be `io`")
    fields = [_field(called, function, parameter, around) for parameter in others if parameter is not None]
    try:
        return msgspec.defstruct(f"{called}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    except (TypeError, ValueError) as error:
        raise BadTool(tool=called, reason=str(error)) from None


def _field(
    called: str, function: ToolFunction, parameter: inspect.Parameter, around: Mapping[str, Any]
) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.kind not in {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
        raise BadTool(tool=called, reason=f"`{parameter}` cannot be described to a model; name each argument")
    if parameter.annotation is _MISSING:
        raise BadTool(tool=called, reason=f"the argument {parameter.name!r} has no annotation")
    kind = _type_of(called, function, parameter, around)
    default: object = parameter.default
    if default is _MISSING:
        return parameter.name, kind
    if default.__hash__ is None:  # it could be changed: each call gets a copy of its own
        return parameter.name, kind, msgspec.field(default_factory=functools.partial(copy.deepcopy, default))
    return parameter.name, kind, default


def _type_of(
    called: str, function: ToolFunction, parameter: inspect.Parameter, around: Mapping[str, Any]
) -> Any:  # an annotation may be anything
    """The annotation of one argument. Those of `io` and of the result may name what exists for type checkers only."""
    owner = inspect.unwrap(function)
    while isinstance(owner, functools.partial):
        owner = inspect.unwrap(owner.func)
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        names = getattr(owner, "__globals__", {})
        return get_type_hints(holder, names, dict(around), include_extras=True)[parameter.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        reason = f"the annotation {parameter.annotation!r} of {parameter.name!r} cannot be read ({error})"
        raise BadTool(tool=called, reason=reason) from None


def _schema(called: str, arguments: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        (top,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except (TypeError, NameError, ValueError) as error:
        raise BadTool(tool=called, reason=str(error)) from None
    own = cast("str", top["$ref"]).rpartition("/")[2]
    schema = dict(parts.pop(own))
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema


def result_text(value: object) -> str:
    """A result as the model reads it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
