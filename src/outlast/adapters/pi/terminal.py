"""What a session records of the flags of a Pi at its user's own terminal, and how its files are laid out there."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from outlast.adapters.at_terminal import not_given
from outlast.adapters.pi import launch, session
from outlast.adapters.pi.user import link_user_files
from outlast.errors import BadInput
from outlast.folders import make_private

APIS: Final[Mapping[str, str]] = {"anthropic": "anthropic-messages", "openai": "openai-responses"}
"""What Pi calls a provider, and how it speaks with it."""
_VALUED: Final = (
    "--append-system-prompt", "--exclude-tools", "--prompt-template", "--skill", "--system-prompt", "--thinking",
    "--tools", "-t", "-xt",
)  # fmt: skip
_ALONE: Final = (
    "--approve", "--no-approve", "--no-builtin-tools", "--no-context-files", "--no-prompt-templates", "--no-skills",
    "--no-tools", "-a", "-na", "-nbt", "-nc", "-np", "-ns", "-nt",
)  # fmt: skip
"""Flags that leave the session in our hands."""


def at_terminal(settings: Mapping[str, Any]) -> bool:
    """Whether the session's turns are typed at a terminal."""
    return bool(settings.get("terminal"))


def settings_of(words: Sequence[str]) -> Mapping[str, Any]:
    """What a session records of the user's flags: the model, how it is spoken with, and the others as they are.

    Raises:
        BadInput: one of them is not known to leave the session in our hands.
    """
    found: dict[str, Any] = {"terminal": True, "api": APIS["anthropic"]}
    flags: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in _ALONE and not equals:
            flags.append(name)
            continue
        if name not in {"--model", "--provider", *_VALUED}:
            raise not_given("a Pi", name, ("--model", "--provider", *_VALUED, *_ALONE))
        value = value if equals else rest.pop(0) if rest else ""
        if name == "--model":
            found["model"] = value
        elif name == "--provider":
            found["api"] = _api(value)
        else:
            flags += [name, value]
    return {**found, **({"flags": flags} if flags else {})}


def _api(provider: str) -> str:
    if provider not in APIS:
        raise BadInput(detail=f"--provider is {' or '.join(APIS)}, not {provider!r}.")
    return APIS[provider]


def as_chosen(started: launch.Launch, lines: Sequence[str]) -> launch.Launch:
    """A start with the model and the thinking level that the user has chosen since: the session's file tells."""
    model, flags = started.model, list(started.flags)
    for entry in session.parse(lines):
        match entry.get("type"):
            case "model_change" if entry.get("provider") == launch.provider(started.api):
                model = str(entry.get("modelId") or model)
            case "thinking_level_change":
                flags = [*started.flags, "--thinking", str(entry.get("thinkingLevel"))]
            case _:
                pass
    return replace(started, model=model, flags=flags)


def lay_out(started: launch.Launch, package: Path, lines: Sequence[str], environ: Mapping[str, str]) -> None:
    """Put what Pi reads below HOME, and nothing of before."""
    config = started.home / launch.config_path(started.session)
    shutil.rmtree(config, ignore_errors=True)
    file = started.home / launch.session_path(started.session)
    make_private(file.parent)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    link_user_files(config, environ)
    (config / "settings.json").write_bytes(msgspec.json.encode(launch.settings(started)))
    link = started.home / launch.package_path(started.session)
    link.unlink(missing_ok=True)
    link.symlink_to(package)
