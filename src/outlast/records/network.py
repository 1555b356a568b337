"""What a commit says about the way out of the session's workspace."""

from typing import Literal, TypeAlias

from outlast.records.kinds import Record

Passed: TypeAlias = Literal["used", "refused"]
"""A credential of the session's was added to a request; a request or connection was not let out."""


class NetworkAsked(Record, frozen=True, tag="network_asked"):
    """Something in the workspace has asked for a host. The newest record `about` the same says how often so far."""

    turn: int
    passed: Passed
    host: str
    """Empty: it named none that could be made out, or is one of those beyond what is told one by one."""
    port: int = 0
    credential: str = ""
    """The name of what was added; never its value."""
    method: str = ""
    path: str = ""
    """Without its query; the first 300 characters."""
    status: int = 0
    """What the host answered; 0: nothing."""
    why: str = ""
    """Why it was not let out."""
    count: int = 1
    """How often in this turn, up to now."""
    at_s: float = 0.0

    @property
    def about(self) -> str:
        """What is counted together: a host that is refused, a use of a credential with the same answer."""
        where = f"{self.host}:{self.port}"
        if self.passed == "refused":
            return f"refused {where}"
        return f"used {self.credential} {self.method} {where}{self.path} {self.status}"
