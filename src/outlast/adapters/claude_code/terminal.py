"""How Claude Code is started at its user's own terminal: its command line, settings and first questions."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from outlast.adapters.claude_code import launch
from outlast.adapters.claude_code.hello import TOKEN_VARIABLE
from outlast.adapters.shapes import as_object
from outlast.errors import BadInput
from outlast.folders import make_private

TAKEN: Final = (
    "-c", "--continue", "-p", "--print", "-r", "--resume", "--session-id", "--fork-session", "--settings",
    "--setting-sources", "--input-format", "--output-format", "--bare", "--remote", "--teleport", "--bg", "--worktree",
    "-w", "--tmux", "--mcp-config",
)  # fmt: skip
"""Flags that would take the program, or its session, out of our hands."""


def settings_of(words: Sequence[str]) -> Mapping[str, Any]:
    """What a session records of the user's flags: the model, and the others as they are.

    Raises:
        BadInput: one of them would take the session out of our hands.
    """
    model, others, rest = "", list[str](), list(words)
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=")
        if name in TAKEN:
            raise BadInput(detail=f"{name} cannot be given to a Claude Code that is wrapped. Leave it out.")
        if name == "--model":
            model = value or (rest.pop(0) if rest else "")
        else:
            others.append(word)
    return {**({"model": model} if model else {}), "terminal": others}


def argv(started: launch.Launch, hooks: str, flags: Sequence[str], *, resume: bool) -> Sequence[str]:
    """The command line of the program at the terminal."""
    mode = (
        []
        if any(flag.startswith("--permission-mode") for flag in flags)
        else ["--permission-mode", "default"]
    )
    return [
        str(started.program),
        "--settings", json.dumps(settings(started, hooks), separators=(",", ":")),
        "--setting-sources", "user,project,local",
        "--disallowedTools", ",".join(one for one in launch.DISALLOWED if one not in launch.FOR_A_PERSON),
        *(("--model", started.model) if started.model else ()),
        *mode,
        *flags,
        "--resume" if resume else "--session-id", started.session,
    ]  # fmt: skip


def settings(started: launch.Launch, hooks: str) -> Mapping[str, Any]:
    """The settings on its command line: those of a program without a terminal, less the questions to the worker."""
    given = dict(launch.settings(started))
    del given["permissions"]
    own = {
        name: [{"hooks": [_posted(f"{hooks}/{path}")]}]
        for name, path in (("UserPromptSubmit", "prompt"), ("Stop", "stop"), ("StopFailure", "failure"))
    }
    return {**given, "hooks": {**{k: v for k, v in given["hooks"].items() if k != "SessionStart"}, **own}}


def _posted(url: str) -> Mapping[str, Any]:
    return {
        "type": "http",
        "url": url,
        "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"},
        "allowedEnvVars": [TOKEN_VARIABLE],
        "timeout": launch.HOOK_TIMEOUT_S,
        "onFailure": "block",
    }


def welcome(config: Path, cwd: str, environ: Mapping[str, str]) -> None:
    """Let Claude Code not ask its user anew what was answered in the user's own configuration."""
    file = config / ".claude.json"
    known = _read(file)
    own = _read(Path(environ.get("CLAUDE_CONFIG_DIR") or environ.get("HOME", "/nowhere")) / ".claude.json")
    place = as_object(as_object(own.get("projects")).get(cwd))
    mine = as_object(known.get("projects"))
    trusted = {"hasTrustDialogAccepted": True} if place.get("hasTrustDialogAccepted") else {}
    known |= {"hasCompletedOnboarding": True, "theme": known.get("theme") or own.get("theme") or "dark"}
    known["projects"] = {**mine, cwd: {**as_object(mine.get(cwd)), **trusted}}
    make_private(config)
    file.write_text(json.dumps(known), encoding="utf-8")


def _read(file: Path) -> dict[str, Any]:
    try:
        return as_object(msgspec.json.decode(file.read_bytes()))
    except (OSError, msgspec.DecodeError):
        return {}
