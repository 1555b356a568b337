"""What reached the scripted model: each request counted, with how it ended and what it cost."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import anyio
import msgspec

from outlast.clock import Clock
from outlast.testing.models.dialect import Billed

Outcome = Literal["open", "completed", "cut", "client_gone", "error", "garbage"]

NOTHING_BILLED = Billed(input_tokens=0, output_tokens=0)
_KEPT_BODY_BYTES = 128 * 1024 * 1024


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request that reached the server.

    Attributes:
        n: its number, from 1; goes on from the last one in the log, if there is a log.
        at: when it arrived, seconds since the Unix epoch.
        dialect: name of the dialect.
        kind: `model` for a model call, else the side request's name (`count_tokens`).
        stream: whether it asked for an event stream.
        conversation: the conversation it selected; None when it selected none.
        step: the index of the step that answers it.
        digest: of the canonical body; equal for a request that is sent again.
        outcome: `open` until it ends (and for ever, if the server ends first) · `completed` · `cut` by the
            script · `client_gone` before the end · `error` for an error status · `garbage`.
        status: the HTTP status answered; 0 as long as there is none.
        frames: frames of an event stream that were sent, or 1 for a whole body.
        billed: tokens it cost. A stream that ended early costs its input, once a frame was sent, and of its
            output the share that was sent.
        ended_at: when it ended.
    """

    n: int
    at: float
    dialect: str
    kind: str
    stream: bool
    conversation: str | None
    step: int | None
    digest: str
    outcome: Outcome = "open"
    status: int = 0
    frames: int = 0
    billed: Billed = NOTHING_BILLED
    ended_at: float | None = None


class Ledger:
    """The records of one server, in memory and appended to a log.

    A line is written when a request arrives and another when it ends, so that neither end of a killed
    client nor of a killed server loses it. `read_log` puts them together.
    """

    def __init__(self, clock: Clock, log: BinaryIO | None = None, *, after: int = 0) -> None:
        self._clock = clock
        self._log = log
        self._last = after
        self._records: dict[int, RequestRecord] = {}
        self._bodies: dict[int, bytes] = {}
        self._body_bytes = 0
        self._sealed = False
        self._changed = anyio.Event()

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """All requests so far, by number."""
        return tuple(self._records.values())

    def find_body(self, n: int) -> bytes | None:
        """Return the body of request `n`; None if there is none, or later ones pushed it out of memory."""
        return self._bodies.get(n)

    def next_number(self) -> int:
        """Take the number of the next request."""
        self._last += 1
        return self._last

    def now(self) -> float:
        """Return the time to write on a record."""
        return self._clock.now()

    def arrived(self, record: RequestRecord, body: bytes) -> None:
        """Write down a request before anything of its answer is sent."""
        self._bodies[record.n] = body
        self._body_bytes += len(body)
        while self._body_bytes > _KEPT_BODY_BYTES:
            self._body_bytes -= len(self._bodies.pop(next(iter(self._bodies))))
        self._put(record)

    def ended(self, n: int, *, outcome: Outcome, status: int, frames: int, billed: Billed) -> None:
        """Write down how request `n` ended; without effect once the ledger is sealed."""
        if self._sealed:
            return
        record = msgspec.structs.replace(
            self._records[n],
            outcome=outcome,
            status=status,
            frames=frames,
            billed=billed,
            ended_at=self.now(),
        )
        self._put(record)

    def seal(self) -> None:
        """Let what is open stay so: the server ends, and would take its own end for its clients'."""
        self._sealed = True

    async def wait_until(
        self, condition: Callable[[Sequence[RequestRecord]], bool], timeout_s: float
    ) -> None:
        """Return when `condition` holds for the requests so far.

        Raises:
            TimeoutError: it did not within `timeout_s`.
        """
        with anyio.fail_after(timeout_s):
            while not condition(self.requests):
                await self._changed.wait()

    def _put(self, record: RequestRecord) -> None:
        self._records[record.n] = record
        if self._log is not None:
            # Unbuffered: the line survives the process, and a test server need not survive the power.
            self._log.write(msgspec.json.encode(record) + b"\n")
        self._changed.set()
        self._changed = anyio.Event()


@contextmanager
def open_ledger(clock: Clock, log: Path | None) -> Generator[Ledger]:
    """Open a ledger, whose numbers go on from those in `log`.

    Raises:
        OSError: the log cannot be read or written.
    """
    if log is None:
        yield Ledger(clock)
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    last = max((record.n for record in read_log(log)), default=0) if log.exists() else 0
    with log.open("ab", buffering=0) as file:
        yield Ledger(clock, file, after=last)


def read_log(log: Path) -> tuple[RequestRecord, ...]:
    """Read the requests in a log, each in its last state, by number; a torn last line is passed over.

    Raises:
        OSError: it cannot be read.
        msgspec.DecodeError: it is no such log.
    """
    decoder = msgspec.json.Decoder(RequestRecord)
    whole, _, _torn = log.read_bytes().rpartition(b"\n")
    records = [decoder.decode(line) for line in whole.splitlines() if line]
    return tuple(sorted({record.n: record for record in records}.values(), key=lambda record: record.n))
