"""What a scripted model says: named conversations, each a list of steps, read from JSON or TOML."""

import re
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from outlast.testing.models.errors import BadScript

CONVERSATION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


T = TypeVar("T")

Times = int | Literal["always"]
Stop = Literal["length", "refusal"]
Garbage = Literal["json", "sse", "html", "empty", "truncated"]


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens of one answer, as a provider reports them.

    Attributes:
        input_tokens: read anew; None lets the server estimate it from the request.
        output_tokens: written; None lets the server estimate it from the step.
        cache_read_tokens: read from the provider's cache.
        cache_write_tokens: written to the provider's cache.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool call that the model asks for: the tool's name and its input."""

    name: str
    input: dict[str, Any] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One answer of the model, and how it reaches the client.

    `times` and `cut_times` count over the server's life, per conversation and step: after so many the
    step is answered in full. An error comes before a hang, a hang before garbage, garbage before a cut.

    Attributes:
        text: what it says.
        thinking: what it thinks before that.
        tools: the tool calls it ends with, parallel when several.
        stop: why it ends, if not because it is complete: the most tokens are written, or the model declines.
        usage: the tokens it reports; estimated where not given.
        delay_s: seconds before the first byte.
        gap_s: seconds before each further frame.
        cut_after: frames after which the connection is dropped in the middle of the response.
        cut_times: how often it is.
        status: an HTTP error status to answer with instead.
        error_type: the error's type in the dialect's words, of OpenAI its code; by default the one usual for
            `status`.
        error_text: what that error says.
        retry_after_s: value of the `retry-after` header of that error.
        garbage: nonsense to answer with instead: broken `json`, an event stream without sense (`sse`), an
            `html` page, an `empty` success, or a stream that ends well but early (`truncated`).
        hang: accept the request and never answer.
        times: how often `status`, `garbage` or `hang` happens.
    """

    text: str | None = None
    thinking: str | None = None
    tools: tuple[ToolUse, ...] = ()
    stop: Stop | None = None
    usage: Usage = Usage()
    delay_s: float = 0.0
    gap_s: float = 0.0
    cut_after: int | None = None
    cut_times: Times = 1
    status: int | None = None
    error_type: str | None = None
    error_text: str = "The script says so."
    retry_after_s: float | None = None
    garbage: Garbage | None = None
    hang: bool = False
    times: Times = 1

    def __post_init__(self) -> None:
        """Refuse what could not be played."""
        said = self.text is not None or self.thinking is not None or bool(self.tools)
        if not said and self.status is None and self.garbage is None and not self.hang:
            msg = "a step needs `text`, `thinking`, `tools`, `status`, `garbage` or `hang`"
            raise ValueError(msg)
        if self.status is not None and not 400 <= self.status <= 599:
            msg = f"`status` is an HTTP error status, 400 to 599, not {self.status}"
            raise ValueError(msg)
        if min(self.delay_s, self.gap_s, self.cut_after or 0, self.retry_after_s or 0) < 0:
            msg = "`delay_s`, `gap_s`, `cut_after` and `retry_after_s` are not negative"
            raise ValueError(msg)


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a scripted model can say: its conversations by name."""

    conversations: dict[str, tuple[Step, ...]]


SCRIPT_OVER = Step(text="(script over)")
"""What a conversation says when it has no further step."""


def load_script(path: Path) -> Script:
    """Read a script from a `.toml` file, or from JSON in a file of any other name.

    Raises:
        BadScript: the file cannot be read, or is not a script; the text names the place.
    """
    try:
        raw = path.read_bytes()
        tree: object = msgspec.toml.decode(raw) if path.suffix == ".toml" else msgspec.json.decode(raw)
    except OSError as error:
        raise BadScript(place=path, reason=f"it cannot be read ({error.strerror})") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadScript(place=path, reason=str(error)) from error
    return parse_script(tree, source=str(path))


def parse_script(tree: object, *, source: str = "script") -> Script:
    """Make a script of plain dicts and lists.

    Args:
        tree: `{"conversations": {name: [step, ...]}}`.
        source: what to call it in an error.

    Raises:
        BadScript: it is none; the text names the place.
    """
    top = _convert(tree, dict[str, Any], source)
    for key in sorted(top.keys() - {"conversations"}):
        raise BadScript(place=source, reason=f"unknown key `{key}`; the only one is `conversations`")
    if "conversations" not in top:
        raise BadScript(place=source, reason="the key `conversations` is missing")
    named = _convert(top["conversations"], dict[str, Any], f"{source}, at conversations")
    return Script(conversations={name: _steps(name, steps, source) for name, steps in named.items()})


def _steps(name: str, steps: object, source: str) -> tuple[Step, ...]:
    place = f"{source}, at conversations.{name}"
    if not CONVERSATION_NAME.fullmatch(name):
        raise BadScript(place=place, reason=f"the name of a conversation matches {CONVERSATION_NAME.pattern}")
    listed = _convert(steps, list[Any], place)
    return tuple(_convert(step, Step, f"{place}[{index}]") for index, step in enumerate(listed))


def _convert(value: object, kind: type[T], place: str) -> T:
    # One conversion a step: msgspec's own path says `[...]` for a dict's key and would hide the conversation.
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadScript(place=place, reason=str(error)) from error
