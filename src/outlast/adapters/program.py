"""What the adapters of programs have alike: how a program is started, and what its user and its model are told."""

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from outlast.adapter import Attempt
from outlast.fold import CallState, TurnState
from outlast.records.kinds import Policy

REFUSED: Final = "outlast lets nothing through"
"""What the gateway's refusals say: the provider has no part in them."""
LOST: Final = (
    "The result of this call was lost when its turn was cut short. It may have taken effect, in full or in part. Check "
    "before you rely on it."
)
"""What the model is told of a call of which neither the log nor the program knows the end."""
NEAR: Final = ("127.0.0.1", "localhost", "::1")
"""The names of this machine, where the gateway listens: no proxy of the environment knows it."""


def past_proxies(inherited: Mapping[str, str]) -> Mapping[str, str]:
    """The variables by which a program asks this machine's own servers past any proxy, and whom its user named too."""
    given = inherited.get("no_proxy") or inherited.get("NO_PROXY") or ""
    near = ",".join([*(name for name in given.split(",") if name and name not in NEAR), *NEAR])
    return {"NO_PROXY": near, "no_proxy": near}


def user_home(environ: Mapping[str, str]) -> Path | None:
    """HOME of the user in whose name the worker runs; None where there is none."""
    home = environ.get("HOME")
    return Path(home) if home else None


def known_as(attempt: Attempt) -> str:
    """Id of the session that its program's name for it comes from: of a fork, the session that its past began as.

    A fork has a home of its own, so that both may be at work on one machine; and what the past wrote stays true of it.
    """
    opened = attempt.state.opened
    return attempt.session if opened is None else opened.session


def is_users_directory(attempt: Attempt) -> bool:
    """Whether the session works where a person works too, with the person's own tools and settings."""
    opened = attempt.state.opened
    return opened is not None and opened.workspace.get("kind") == "local"


def sees_files(attempt: Attempt) -> bool:
    """Whether the files that the session works on lie on this machine under the path that the program has for them."""
    opened = attempt.state.opened
    return opened is None or opened.workspace.get("kind", "local") == "local"


def shown_cwd(attempt: Attempt) -> str:
    """The directory that the model is told it works in, where its program works in an empty one beside the files.

    Empty where the program works where it says, with its own tools.
    """
    opened = attempt.state.opened
    beside = opened is not None and opened.cwd not in {"", str(attempt.places.cwd)}
    return opened.cwd if opened is not None and beside else ""


def tools_home(attempt: Attempt) -> Path | None:
    """HOME of what a program runs, where that is the user's; None where it is the session's own."""
    return user_home(os.environ) if is_users_directory(attempt) else None


def overridden(name: str, overrides: Mapping[str, Policy] | None) -> Policy | None:
    """The user's own replay policy of the tool `name`: by its exact name, else by the first pattern that fits."""
    if not overrides:
        return None
    if name in overrides:
        return overrides[name]
    return next((policy for pattern, policy in overrides.items() if fnmatchcase(name, pattern)), None)


def untested(harness: str, version: str, tested: Sequence[str], leans_on: str, install: str) -> str | None:
    """What to tell the user of a program's version; None if it is a tested one.

    Args:
        leans_on: what of the program recovery leans on, in the plural.
        install: the command that brings a tested one.
    """
    if version in tested:
        return None
    return (
        f"{harness} {version} has not been tested with outlast (tested: {', '.join(tested)}). Recovery leans on "
        f"{leans_on} that differ between versions; `{install}` brings a tested one."
    )


def answered(turn: TurnState, lane: str) -> list[CallState]:
    """The model calls of a lane that have an answer."""
    return [
        call
        for call in turn.calls.values()
        if call.intent.kind == "model"
        and call.intent.lane == lane
        and call.outcome is not None
        and call.outcome.status == "ok"
    ]
