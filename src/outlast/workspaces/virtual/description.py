"""The description of a virtual workspace."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.errors import BadInput
from outlast.workspaces.described import Isolated, kept_in
from outlast.workspaces.virtual.wire import ROOT

FILES_BYTES: Final = 256 * 1024
"""Bytes of initial files, which stand in the session's first record."""
MEMORY_BYTES: Final = 512 * 1024 * 1024
"""What commands may take, with all files."""


@dataclass(frozen=True, slots=True)
class Virtual(Isolated):
    """Files in the session's log, and a shell that sees nothing else. Made by `virtual`."""

    durable: bool = True
    memory_bytes: int = MEMORY_BYTES
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    store: str = ""

    @property
    def kind(self) -> str:
        return "virtual"

    @property
    def cwd(self) -> str:
        return ROOT

    @property
    def hosts_programs(self) -> bool:
        return False

    def reference(self) -> Mapping[str, Any]:
        return {
            "kind": "virtual",
            "checkpoint": "call" if self.durable else "off",
            "memory_bytes": self.memory_bytes,
            "files": {path: base64.b64encode(data).decode() for path, data in self.files.items()},
            **kept_in(self.store),
        }


def virtual(
    files: Mapping[str, str | bytes] | None = None,
    *,
    durable: bool = True,
    memory_bytes: int = MEMORY_BYTES,
    store: str = "",
) -> Virtual:
    """A workspace that needs no machine: a shell like bash, in a process of its own, with files in memory.

    Args:
        files: what is in it at first, by path relative to `/workspace`; 256 KB together, since it is recorded with
            each session.
        durable: each call's changes are in the log with its outcome. Else all is empty again, but for `files`, when
            the turn ends or is taken over.
        memory_bytes: what the shell may take, with the files, before it is ended and made anew; 256 MB at least.
        store: where its files are kept, if not in the World: the URL of a directory or a bucket.

    Raises:
        BadInput: a path leads out of the workspace, or there is more than is recorded.
    """
    given = {path: data.encode() if isinstance(data, str) else data for path, data in (files or {}).items()}
    for path in given:
        names = path.split("/")
        if not path or path.startswith("/") or {"", ".", ".."} & set(names):
            raise BadInput(detail=f"{path!r} is no path of a file below {ROOT}. Name it like 'docs/plan.md'.")
        if any("/".join(names[:count]) in given for count in range(1, len(names))):
            raise BadInput(detail=f"{path!r} lies in what is itself a file. Name one of them otherwise.")
    size = sum(map(len, given.values()))
    if size > FILES_BYTES:
        raise BadInput(
            detail=f"The files of the workspace have {size:,} bytes, more than the {FILES_BYTES:,} that are "
            "recorded with a session. Let a tool write what is larger."
        )
    if memory_bytes < 256 * 1024 * 1024:
        raise BadInput(
            detail=f"{memory_bytes:,} bytes of memory are too little for a shell. Give it 256 MB at least."
        )
    return Virtual(durable, memory_bytes, given, store)
