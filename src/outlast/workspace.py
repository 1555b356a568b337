"""The files that a session works on."""

from collections.abc import Mapping
from typing import Any, Protocol


class Workspace(Protocol):
    """Where an agent's files are.

    A workspace is described in the session's first record (`reference`), and opened by each attempt from that.
    """

    @property
    def kind(self) -> str:
        """The word for how it is kept, as in its reference: `local`."""
        ...

    @property
    def placement(self) -> str:
        """Where it can be reached: `any`, or `host:<id>` for a directory of one machine."""
        ...

    @property
    def isolated(self) -> bool:
        """False where commands of the model reach the host's own files and processes."""
        ...

    @property
    def cwd(self) -> str:
        """The directory, as the harness sees it."""
        ...

    def reference(self) -> Mapping[str, Any]:
        """Everything needed to open it again, as JSON."""
        ...
