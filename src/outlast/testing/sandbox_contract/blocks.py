"""What the cases are made of."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from types import TracebackType
from typing import Final, Literal, Self

import anyio

from outlast.errors import OutlastError
from outlast.sandbox import Box, Job, JobAsk, Limits, Spec
from outlast.testing.sandbox_contract.case import Ground

SOON_S: Final = 20.0
"""How long what must happen may take on a loaded machine."""
_numbers = count(1)


@asynccontextmanager
async def held(
    ground: Ground, fence: int = 1, *, idle_s: float = 0.0, spec: Spec | None = None
) -> AsyncGenerator[Box]:
    """A box of the ground's name, by a provider of its own."""
    wanted = replace(spec or ground.spec, idle_s=idle_s)
    async with ground.provider().attach(wanted, fence) as box:
        yield box


def limited(ground: Ground, **limits: int) -> Spec:
    """The ground's spec, with limits."""
    return replace(ground.spec, limits=Limits(**limits))


async def begun(
    box: Box, line: str, *, job: str = "", tied: bool = False, stdin: bool = False, timeout_s: float = 0.0
) -> Job:
    """A line of shell, as a job; by default under a name of its own."""
    name = job or f"job-{next(_numbers)}"
    return await box.begin(JobAsk(name, ["sh", "-c", line], tied=tied, stdin=stdin, timeout_s=timeout_s))


async def ran(box: Box, line: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """A line of shell, run to its end: status, standard output."""
    job = await box.begin(JobAsk(f"job-{next(_numbers)}", ["sh", "-c", line], env=env or {}))
    return await ended(job), await written(job)


async def ended(job: Job) -> int:
    """Its status, soon."""
    with anyio.fail_after(SOON_S):
        return await job.wait()


async def written(job: Job, stream: Literal["stdout", "stderr"] = "stdout", offset: int = 0) -> str:
    """All that it wrote, when it has ended."""
    with anyio.fail_after(SOON_S):
        return b"".join([piece async for _, piece in job.output(stream, offset)]).decode()


async def written_so_far(job: Job, until: str) -> str:
    """What it wrote up to a text that it must write."""
    seen = ""
    with anyio.fail_after(SOON_S):
        async for _, piece in job.output("stdout"):
            seen += piece.decode()
            if until in seen:
                return seen
    raise AssertionError(f"it wrote {seen!r:.500} and ended, without {until!r}")


async def until(true: Callable[[], Awaitable[bool]], what: str, within_s: float = SOON_S) -> None:
    """Wait until something holds, looking again and again: of what happens in a box nobody is told."""
    with anyio.move_on_after(within_s):
        while not await true():  # noqa: ASYNC110 - there is no event of another machine
            await anyio.sleep(0.05)
        return
    raise AssertionError(f"not within {within_s} s: {what}")


async def nothing_left(ground: Ground, box: Box) -> None:
    """Nothing of a box is left, soon."""
    found: Sequence[str] = []

    async def gone() -> bool:
        nonlocal found
        found = await ground.left(box.ref)
        return not found

    try:
        await until(gone, "nothing is left of the box")
    except AssertionError as still:
        raise AssertionError(f"{still}: {found}") from None


def same(there: object, wanted: object) -> None:
    """Fail, showing both, unless they are equal."""
    assert there == wanted, f"there is {there!r:.2000}\nwanted   {wanted!r:.2000}"


class raises:  # noqa: N801 it reads as a verb
    """Expect an error of that class; without pytest."""

    def __init__(self, kind: type[OutlastError] | tuple[type[OutlastError], ...]) -> None:
        self._kind = kind
        self.said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert error is not None, f"no {self._kind} was raised"
        self.said = str(error)
        return isinstance(error, self._kind)
