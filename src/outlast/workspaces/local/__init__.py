"""The user's own directory. Not isolated: commands of the model reach whatever the user reaches."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.errors import BadInput
from outlast.workspace import Checkpoint
from outlast.workspaces.described import kept_in


@dataclass(frozen=True, slots=True)
class Local:
    """A directory of this machine, as it is. Made by `local`."""

    path: str
    host: str = ""
    """Id of the machine; empty where any machine has the same directory at the same path."""
    checkpoint: Checkpoint = "turn"
    store: str = ""

    @property
    def kind(self) -> str:
        return "local"

    @property
    def placement(self) -> str:
        return f"host:{self.host}" if self.host else "any"

    @property
    def isolated(self) -> bool:
        return False

    @property
    def cwd(self) -> str:
        return self.path

    def reference(self) -> Mapping[str, Any]:
        known = {"kind": "local", "path": self.path, "host": self.host, "checkpoint": self.checkpoint}
        return {**known, **kept_in(self.store)}


def local(
    path: str | Path = ".", *, host: str = "", checkpoint: Checkpoint = "turn", store: str = ""
) -> Local:
    """The directory `path` as a workspace.

    Args:
        path: relative to the working directory; `~` is the user's home.
        host: the id of this machine, as its workers offer it, so that only they take the session; empty where every
            worker sees the same directory at this path.
        checkpoint: `turn` keeps the files as they are when a turn begins and ends, so that it can be undone; what git
            ignores is left out, and so is all of a directory that holds more than 20,000 files or 200 MB beside that.
            `off` keeps nothing.
        store: where they are kept, if not in the World: the URL of a directory or a bucket.

    Raises:
        BadInput: it is no directory.
    """
    real = Path(os.path.expanduser(path)).resolve()  # noqa: PTH111 - Path's own raises where there is no such user
    if not real.is_dir():
        raise BadInput(detail=f"{real} is no directory. Name one that exists; outlast does not create it.")
    if checkpoint not in {"turn", "off"}:
        raise BadInput(detail=f"checkpoint={checkpoint!r} is none of a local directory: turn or off.")
    return Local(str(real), host, checkpoint, store)
