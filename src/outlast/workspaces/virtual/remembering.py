"""What a shell knows, as commands that make another know it."""

import re
import shlex
from collections.abc import Iterator
from typing import Final

from bashkit import Bash

from outlast.workspaces.virtual.wire import State

STATE_LIMIT: Final = 64 * 1024
"""Characters that are remembered of a shell."""
_OWN: Final = frozenset(
    {
        *("BASHOPTS", "BASH_VERSINFO", "EUID", "PIPESTATUS", "PPID", "PWD", "SHELLOPTS", "SHLVL", "UID", "_"),
        *("LINENO", "SECONDS", "RANDOM"),
    }
)
"""Variables that a shell sets by itself."""
_VARIABLE: Final = re.compile(r"declare -\S+ ([A-Za-z_][A-Za-z0-9_]*)(?:=|$)")
_PARAMETERS: Final = 'if (($#)); then printf "set --"; printf " %q" "$@"; fi'


class Memory:
    """What a shell knows beside what every fresh one knows."""

    def __init__(self, bash: Bash) -> None:
        self._bash = bash
        self._fresh_variables = self._variables()
        self._fresh_options = frozenset(self._lines("builtin shopt -p; builtin umask -p"))
        self._functions: tuple[str, tuple[str, ...]] = ("", ())

    def state(self, outside: int) -> tuple[State, list[str]]:
        """What it knows now; and the names of what is too long to be remembered."""
        lines = [*self._changed_variables(), *self._changed_functions()]
        lines += [f"builtin {line}" for line in self._text("builtin alias -p").split("\nalias ") if line]
        lines += [
            line
            for line in self._lines("builtin shopt -p; builtin umask -p")
            if line not in self._fresh_options
        ]
        lines += self._lines(_PARAMETERS)
        kept, dropped = _fitting(lines)
        return State(self._bash.shell_state().cwd, tuple(kept), outside), dropped

    def wake(self, state: State) -> list[str]:
        """Know what `state` says; what could not be had again comes back, in words."""
        lost: list[str] = []
        if self._bash.execute_sync(f"builtin cd -- {shlex.quote(state.cwd)}").exit_code != 0:
            lost.append(f"cd {state.cwd}")
        lost += [line for line in state.lines if self._bash.execute_sync(line).exit_code != 0]
        return [line.split("\n", 1)[0][:80] for line in lost]

    def _changed_variables(self) -> Iterator[str]:
        now = self._variables()
        for name in self._fresh_variables:
            if name not in now:
                yield f"unset -v {name}"
        for name, line in now.items():
            if self._fresh_variables.get(name) != line:
                yield line

    def _variables(self) -> dict[str, str]:
        found = ((_VARIABLE.match(line), line) for line in self._lines("builtin declare -p"))
        return {match[1]: line for match, line in found if match is not None and match[1] not in _OWN}

    def _changed_functions(self) -> tuple[str, ...]:
        text = self._text("builtin declare -f")
        if text != self._functions[0]:
            names = self._lines("builtin compgen -A function")
            self._functions = (
                text,
                tuple(self._text(f"builtin declare -f {shlex.quote(name)}") for name in names),
            )
        return self._functions[1]

    def _lines(self, command: str) -> list[str]:
        return [line for line in self._text(command).split("\n") if line]

    def _text(self, command: str) -> str:
        return self._bash.execute_sync(command).stdout


def _fitting(lines: list[str]) -> tuple[list[str], list[str]]:
    """Those that are remembered, and the beginnings of those that are too long together."""
    left = sum(map(len, lines))
    dropped: set[int] = set()
    for at in sorted(range(len(lines)), key=lambda at: -len(lines[at])):
        if left <= STATE_LIMIT:
            break
        left -= len(lines[at])
        dropped.add(at)
    kept = [line for at, line in enumerate(lines) if at not in dropped]
    return kept, [_called(lines[at]) for at in sorted(dropped)]


def _called(line: str) -> str:
    """What is set by a line, for people."""
    variable = _VARIABLE.match(line)
    return f"${variable[1]}" if variable else line.split("\n", 1)[0][:80]
