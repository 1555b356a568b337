"""Which tool calls may run: rules that stand before every one, the harness's own included.

The strictest rule that fits decides: deny, then ask, then allow. A call that no rule fits may run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

from outlast.errors import BadInput

Word: TypeAlias = Literal["allow", "ask", "deny"]

STRICTNESS: Final[Mapping[Word, int]] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Rule:
    """What is said about the calls that it fits. Made by `allow`, `ask` and `deny`."""

    word: Word
    tool: str
    """The name of the tool, `*` and `?` standing for anything."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Patterns of the same kind, by argument; a call that lacks one of these arguments is not fitted. It does not lack
    what a tool of the application's fills in by default."""
    why: str = ""
    """For whoever reads that a call was denied or waits: model and person."""

    def fits(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it is about this call."""
        if not _pattern(self.tool).fullmatch(tool):
            return False
        return all(
            name in arguments and _pattern(wanted).fullmatch(_text(arguments[name])) is not None
            for name, wanted in self.arguments
        )


ALLOWED: Final = Rule("allow", "*")


def allow(tool: str, *, why: str = "", **arguments: str) -> Rule:
    """Calls that may run. Useful beside none: a stricter rule that fits as well stands above it."""
    return _rule("allow", tool, arguments, why)


def ask(tool: str, *, why: str = "", **arguments: str) -> Rule:
    """Calls that a person must allow first: the turn is parked until somebody has."""
    return _rule("ask", tool, arguments, why)


def deny(tool: str, *, why: str = "", **arguments: str) -> Rule:
    """Calls that never run: the model is told so."""
    return _rule("deny", tool, arguments, why)


def judge(rules: Sequence[Rule], tool: str, *forms: Mapping[str, Any]) -> Rule:
    """The rule that decides about a call, whose arguments may be seen in several forms: a rule fits if it fits one."""
    fitting: Iterable[Rule] = (rule for rule in rules if any(rule.fits(tool, form) for form in forms))
    return max(fitting, key=lambda rule: STRICTNESS[rule.word], default=ALLOWED)


def _rule(word: Word, tool: str, arguments: Mapping[str, str], why: str) -> Rule:
    if not tool:
        raise BadInput(detail="A rule needs the name of a tool, or a pattern: `*` fits all.")
    for name, pattern in arguments.items():
        if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users' code
            raise BadInput(detail=f"The pattern of {name!r} must be text, not {type(pattern).__name__}.")
    return Rule(word, tool, tuple(arguments.items()), why)


def _text(value: object) -> str:
    """An argument as patterns see it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))
