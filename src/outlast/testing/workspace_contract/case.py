"""What a case of the contract is, and what it asks of whoever wants to run it."""

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from outlast.drive import Capture, Packs
from outlast.errors import PacksGone
from outlast.testing import cases
from outlast.testing.cases import CaseResult, tried
from outlast.workspace import Command, Ran, Site

Trait: TypeAlias = Literal["rolls-back", "remembers", "isolates", "programs", "settles", "fences"]
"""In what kinds of sites differ: a command that was cut short leaves the files as they were before it; the shell's
directory, variables and functions last from one command to the next, and are captured with the files; commands reach
nothing of the host; harness programs run in it; a site opened with a root shows that and nothing else; an older fence
cannot change what a newer one shows."""


class Ground(Protocol):
    """Where one session's sites are opened: fresh, and gone when the case has ended."""

    @property
    def traits(self) -> frozenset[Trait]:
        """What its sites do where kinds differ."""
        ...

    def open(
        self, *, fence: int, root: str, aside: Mapping[str, Any], packs: Packs
    ) -> AbstractAsyncContextManager[Site]:
        """Open the session's site, as an attempt of this fence does."""
        ...


GroundFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Ground]]


async def captured(site: Site) -> Capture:
    """What its files are, of a site that writes them down."""
    capture = await site.capture()
    assert capture is not None, "its files are not written down"
    return capture


@dataclass(slots=True)
class Log:
    """What the engine would have written down: the newest root, and all packs of durable captures."""

    root: str = ""
    aside: Mapping[str, Any] = field(default_factory=dict[str, Any])
    packs: dict[str, bytes] = field(default_factory=dict[str, bytes])

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """See `outlast.drive.Packs`."""
        if missing := [name for name in names if name not in self.packs]:
            raise PacksGone(count=len(missing), where="the log of the case", names=", ".join(missing))
        return {name: self.packs[name] for name in names}

    async def commit(self, site: Site) -> Capture:
        """Capture a site, and make that durable."""
        capture = await captured(site)
        self.root, self.aside = capture.root, capture.aside
        self.packs.update(capture.packs)
        site.captured(capture.root)
        return capture


class Stand:
    """What a case works with."""

    def __init__(self, ground: Ground, factory: GroundFactory) -> None:
        self._ground = ground
        self._factory = factory
        self._fences = itertools.count(1)
        self._jobs = itertools.count(1)
        self.log = Log()

    @property
    def traits(self) -> frozenset[Trait]:
        """See `Ground.traits`."""
        return self._ground.traits

    @asynccontextmanager
    async def site(self) -> AsyncGenerator[Site]:
        """The site as the next attempt opens it, from what the log has."""
        log = self.log
        async with self._ground.open(
            fence=next(self._fences), root=log.root, aside=log.aside, packs=log
        ) as site:
            yield site

    @asynccontextmanager
    async def elsewhere(self) -> AsyncGenerator[Site]:
        """The site as it is opened on another machine, where nothing of it is."""
        log = self.log
        async with (
            self._factory() as ground,
            ground.open(fence=next(self._fences), root=log.root, aside=log.aside, packs=log) as site,
        ):
            yield site

    async def run(self, site: Site, text: str, *, job: str = "", timeout_s: float = 30.0) -> Ran:
        """Run a command, under a name that no other has unless one is given."""
        return await site.run(Command(text, job or f"job-{next(self._jobs)}", timeout_s=timeout_s))

    async def said(self, site: Site, text: str) -> str:
        """What a command that must go well writes to standard output."""
        ran = await self.run(site, text)
        assert ran.status == 0, ran
        return ran.stdout


class Case(cases.Case[Stand, Trait]):
    """One promise of `outlast.workspace.Site`, as a test that needs nothing but a ground for it."""


def promise(*needs: Trait) -> Callable[[Callable[[Stand], Awaitable[None]]], Case]:
    """Make a case of a function. Its name is the promise; `needs` is what a kind of site need not be."""
    return lambda run: Case(run.__name__, frozenset(needs), run)


def lacking(case: Case, ground: Ground) -> str:
    """What the sites lack to be held to the case, as text; empty if nothing."""
    return ", ".join(case.lacks(ground.traits))


async def run_case(case: Case, factory: GroundFactory) -> CaseResult:
    """Run one case on a fresh ground."""
    return await tried(
        case.name,
        factory,
        lambda ground: lacking(case, ground),
        lambda ground: case.run(Stand(ground, factory)),
    )
