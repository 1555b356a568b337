"""What a session records of the flags of an OpenCode at its user's own terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from outlast.adapters.at_terminal import not_given
from outlast.adapters.opencode.launch import model_name
from outlast.adapters.shapes import as_object
from outlast.errors import BadInput

_MODEL: Final = ("-m", "--model")
_AGENT: Final = ("--agent",)


def at_terminal(settings: Mapping[str, Any]) -> bool:
    """Whether the session's turns are typed at a terminal."""
    return bool(settings.get("terminal"))


def settings_of(words: Sequence[str]) -> Mapping[str, Any]:
    """What a session records of the user's flags: the model, which says how it is spoken with, and the agent.

    Raises:
        BadInput: one of them is not known to leave the session in our hands.
    """
    found: dict[str, Any] = {"terminal": True}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in {*_MODEL, *_AGENT}:
            raise not_given("an OpenCode", name, (*_MODEL, *_AGENT))
        value = value if equals else rest.pop(0) if rest else ""
        if not value:
            raise BadInput(detail=f"{name} needs a value.")
        if name in _MODEL:
            found["model"] = _model(value)
        else:
            found["agent"] = value
    return found


def config_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The session's configuration, in which its agent is the one that the screen begins with."""
    given, agent = as_object(settings.get("config")), settings.get("agent")
    return {**given, "default_agent": agent} if at_terminal(settings) and agent else given


def _model(value: str) -> str:
    provider, slash, _ = value.partition("/")
    name = model_name(value)
    if slash and name is not None and name.model == value:
        detail = f"--model is NAME, or anthropic/NAME, openai/NAME or openai-compatible/NAME, not {value!r}."
        raise BadInput(detail=f"{detail} outlast knows no provider {provider!r}.")
    return value
