"""What this process has answered, by tenant: counted, never content."""

from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import contextmanager


class Meter:
    """Counts requests, and who watches."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By tenant, operation and status."""
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        """By tenant and operation: how long its answers took, without what streams."""
        self.watching: Counter[str] = Counter()
        """By tenant: streams that are open."""

    def answered(self, tenant: str, operation: str, status: int, took_s: float) -> None:
        """A request was answered."""
        self.requests[tenant, operation, status] += 1
        self.seconds[tenant, operation] += took_s

    @contextmanager
    def watched(self, tenant: str) -> Generator[None]:
        """A stream is open for as long."""
        self.watching[tenant] += 1
        try:
            yield
        finally:
            self.watching[tenant] -= 1
