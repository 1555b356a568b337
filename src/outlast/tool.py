"""What an application's tool promises, and what it is given."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_type_hints, overload

import msgspec

from outlast.errors import BadTool
from outlast.records.kinds import OnDoubt, Policy

Result = TypeVar("Result")


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


class ToolFailed(Exception):  # noqa: N818 - says what happened, as the model will read it
    """Raise it in a tool with a text that the model should read: the call ends as an error with exactly that text.

    Any other exception ends the call as an error too, with its type and message.
    """


class ToolIO(Protocol):
    """What a tool is given besides its arguments."""

    @property
    def key(self) -> str:
        """The same text in every attempt at this call, and no other's: hand it to outside systems as idempotency key."""
        ...

    @property
    def session(self) -> str: ...

    @property
    def turn(self) -> int: ...

    @property
    def call(self) -> int: ...

    @property
    def attempt(self) -> int:
        """Fence of the attempt: grows with every take-over."""
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
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

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

    def _convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            fitting = msgspec.convert(dict(arguments), self.arguments)
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
    name: str | None = None,
) -> Callable[[ToolFunction], Tool]: ...
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    replay: Policy = "never",
    verify: VerifyFunction | None = None,
    on_doubt: OnDoubt = "tell",
    key_ttl_s: float = 0.0,
    timeout_s: float = 600.0,
    name: str | None = None,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of an asynchronous function `(io, typed arguments …) -> JSON`.

    Args:
        replay: what recovery may do when it is not known how a call ended: `never` run it again (the default),
            `verify` first, run it again under the same `io.key` (`keyed`), or just run it again (`safe`).
        verify: asynchronous, same arguments, returns `Done(result)`, `NotDone()` or `Unsure()`. Implies `replay="verify"`.
        on_doubt: `tell` the model that it may have run, or `ask` a person.
        key_ttl_s: seconds for which the outside honours `io.key`; 0 for ever.
        timeout_s: seconds after which a call ends as an error.

    Raises:
        BadTool: it is not asynchronous, lacks `io` or annotations, or the policy does not fit.
    """
    policy: Policy = "verify" if verify is not None else replay
    if replay == "verify" and verify is None:
        raise BadTool(tool=name or getattr(function, "__name__", "?"), reason="replay='verify' needs verify=")
    if verify is not None and replay not in {"never", "verify"}:
        raise BadTool(tool=name or "?", reason=f"verify= does not go with replay={replay!r}")

    def make(inner: ToolFunction) -> Tool:
        made = _from_function(inner, name)
        return replace(
            made, policy=policy, on_doubt=on_doubt, verify=verify, key_ttl_s=key_ttl_s, timeout_s=timeout_s
        )

    return make if function is None else make(function)


def _from_function(function: ToolFunction, name: str | None) -> Tool:
    called = name or getattr(function, "__name__", "")
    if not called.isidentifier() or len(called) > 48:
        raise BadTool(tool=called, reason="its name must be an identifier of at most 48 characters")
    if not inspect.iscoroutinefunction(function):
        raise BadTool(tool=called, reason="it must be an `async def`")
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].name != "io":
        raise BadTool(tool=called, reason="its first parameter must be `io`")
    arguments = _argument_struct(called, function, parameters[1:])
    schema = _schema(called, arguments)
    return Tool(called, inspect.getdoc(function) or called, function, arguments, schema)


def _argument_struct(
    called: str, function: ToolFunction, parameters: list[inspect.Parameter]
) -> type[msgspec.Struct]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise BadTool(tool=called, reason=f"`{parameter}` cannot be described to a model; name each argument")
        if parameter.name not in hints:
            raise BadTool(tool=called, reason=f"the argument {parameter.name!r} has no annotation")
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, hints[parameter.name]))
        else:
            fields.append((parameter.name, hints[parameter.name], parameter.default))
    return msgspec.defstruct(f"{called}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(called: str, arguments: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        (top,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise BadTool(tool=called, reason=str(error)) from None
    own = cast("str", top["$ref"]).rpartition("/")[2]
    schema = dict(parts.pop(own))
    schema.pop("title", None)
    return {**schema, "$defs": parts} if parts else schema


def result_text(value: object) -> str:
    """A result as the model reads it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


ToolStatus: TypeAlias = Literal["ok", "error", "in_doubt", "interrupted", "cancelled"]
