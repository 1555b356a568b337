"""The environment of a user's, in which harnesses of the contract are started."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from outlast.settings import read_settings
from outlast.testing.adapter_contract.shop import EFFECTS
from outlast.testing.adapter_contract.subject import Subject


def of_a_user(subject: Subject, directory: Path) -> dict[str, str | None]:
    """What is changed for a user whose home is below a directory."""
    return {
        EFFECTS: str(directory / "effects"),
        # A harness starts a login shell, and that of whoever runs the cases may do anything, slowly.
        "HOME": str(directory / "user"),
        # Installed programs stay where they are.
        "OUTLAST_HARNESS_DIR": str(read_settings().harnesses),
        **dict.fromkeys(subject.unset),
    }


@contextmanager
def environment(changes: Mapping[str, str | None]) -> Generator[None]:
    """Change the environment of this process and of those that it starts; None takes a variable away."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
