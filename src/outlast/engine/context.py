"""What the parts of one attempt share."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from outlast.adapter import Adapter, Budget, Resolved, TakenSteer
from outlast.clock import Clock
from outlast.engine.allowance import Allowance
from outlast.engine.budget import overspent
from outlast.engine.course import HANDED_OVER, Course
from outlast.engine.documents import Documents
from outlast.engine.files import WorkFiles, replayed
from outlast.engine.lost import tell_lost
from outlast.engine.network import NetworkNotes
from outlast.engine.reading import Reading
from outlast.engine.writer import Writer
from outlast.errors import AttemptLost, TurnStopped
from outlast.fold import CallState, TurnState
from outlast.gate import Gate
from outlast.ids import digest
from outlast.inquiry import Scene
from outlast.offering import Offers, with_stand_ins
from outlast.records import CallIntent, TurnParked
from outlast.records.kinds import ParkedFor
from outlast.rules import Rule
from outlast.tool import Tool
from outlast.workspace import LendsShell, Site
from outlast.world import World

__all__ = ["HANDED_OVER", "Context"]


class Context(Course, Reading):
    """One attempt at one turn: what it is about, its course, and what it reads."""

    def __init__(
        self,
        world: World,
        writer: Writer,
        adapter: Adapter,
        tools: Mapping[str, Tool],
        *,
        gate: Gate,
        clock: Clock,
    ) -> None:
        if writer.state.turn is None:
            raise AttemptLost("no turn is open")
        super().__init__(writer, clock)
        self.world = world
        self.adapter = adapter
        self.tools = tools
        self.gate = gate
        self._turn = writer.state.turn
        self.asked = False
        """The harness has asked for something in this attempt."""
        self.keeps: Collection[str] | None = None
        """The only tools of the harness's own that may run, where the worker's stand in their place."""
        self.scene: Scene | None = None
        """What inquiries look at; None: nothing."""
        self.on_begin_again: Callable[[], None] = lambda: None
        self._refused: dict[int, float] = {}
        """By model call, the Unix time up to which its provider wants not to be asked again, by its last refusal."""
        self._steers: list[tuple[str, TakenSteer]] = []
        """Steers that a model intent is to carry, with the lane that it must be of; empty for any."""
        self.rules: Sequence[Rule] = ()
        """What may run, of the agent's own saying."""
        self.budget: Budget | None = None
        self._allowance = Allowance(world, writer)
        self.documents = Documents(writer.state, self.blobs, {}, clock)
        self.files = WorkFiles(writer, gate, clock)
        self._said: dict[int, Mapping[str, Any]] = {}
        """Arguments of calls of the harness that stand behind blobs and were fetched."""
        self.network = NetworkNotes(writer, clock)

    @property
    def turn(self) -> TurnState:
        return self._turn

    @property
    def session(self) -> str:
        return self.writer.state.session

    def close(self) -> None:
        """The attempt is over: whoever still holds a part of it writes no more."""
        self.closed = True
        self.network.end()

    async def enter(self, site: Site | None, *, resumed: bool) -> None:
        """The workspace is open; a turn of which nothing has happened yet begins with its files as they are.

        Raises:
            WorkspaceError: they cannot be written down.
        """
        self.files = WorkFiles(self.writer, self.gate, self.clock, site)
        self.files.fail = self.fail
        self.files.outlasts = lambda: self.writer.lost is not None or self.stopping == HANDED_OVER
        if self.files.forgets:
            if isinstance(self.adapter, Offers):
                self.keeps = frozenset(self.adapter.keeps)
                opened = self.writer.state.opened
                offered = self.adapter.offered({} if opened is None else opened.settings)
                self.tools = with_stand_ins(self.tools, offered)
            self.tools = {name: replayed(tool) for name, tool in self.tools.items()}
        if isinstance(site, LendsShell) and not resumed:
            await site.end_others(())
        await tell_lost(self)  # before they are written down as they are
        if not resumed or not (self.turn.calls or self.files.kept):
            await self.files.begin()

    def refused(self, call: int, retry_after_s: float) -> None:
        """The provider of a model call wants it asked again after so many seconds."""
        self._refused[call] = self.clock.now() + retry_after_s

    @property
    def retry_after_s(self) -> float:
        """For how long providers want not to be asked again: the longest, of calls that none has answered since."""
        calls = self.turn.calls
        times = [at_s for call, at_s in self._refused.items() if call not in calls or calls[call].open]
        return max(0.0, max(times, default=0.0) - self.clock.now())

    async def afford(self, call: int = 0) -> None:
        """Return if the turn may make another call; park it where it has used up what it may.

        Args:
            call: the one that is to begin, if its intent stands in the log.

        Raises:
            TurnStopped
        """
        if self.budget is None or self.stopping is not None:
            return
        now_s = self.clock.now()
        evidence = overspent(self.writer.state, self.turn, self.budget, now_s, call)
        if evidence is None:
            evidence = await self._allowance.overspent(self.turn, self.budget, now_s)
        if evidence is not None:
            await self.rest()  # what runs is not cut off
            self.park("budget", evidence)

    def park(self, why: ParkedFor, evidence: Mapping[str, Any]) -> NoReturn:
        """Park the turn and end the attempt; where it ends already, that reason stands and no other.

        Raises:
            TurnStopped
        """
        if self.stopping is None:
            self.append(TurnParked(self.turn.turn, why, dict(evidence), self.clock.now()))
            self.stop(why)
        raise TurnStopped(self.stopping or why)

    def tool_of(self, intent: CallIntent) -> Tool | None:
        """The tool of a call that the worker runs; a compensation's is known by the tool that it makes good.

        Of a call that the harness runs, what can be asked about it (`Resolved.verifier`).
        """
        if not intent.compensates:
            found = self.tools.get(intent.name)
            asks = found is None and intent.runs_in == "harness"
            return self.means(intent).verifier if asks else found
        made_good = self.tool_of(self.turn.calls[intent.compensates].intent)
        found = None if made_good is None else made_good.compensate
        return found if found is not None and found.name == intent.name else None

    def resolve(self, name: str, arguments: Mapping[str, Any]) -> Resolved:
        return self.adapter.resolve(name, arguments, self.tools)

    def means(self, intent: CallIntent) -> Resolved:
        """What today's adapter says of a call that the harness runs; without arguments where nobody `fetched` them."""
        said = self._said.get(intent.call, {}) if intent.arguments.ref else intent.arguments.value()
        return self.resolve(intent.name, said)

    async def fetched(self, intents: Sequence[CallIntent]) -> None:
        """Fetch the arguments of these calls, for `means`."""
        behind = [intent for intent in intents if intent.arguments.ref and intent.call not in self._said]
        values = await self.values([intent.arguments for intent in behind])
        self._said.update((intent.call, value) for intent, value in zip(behind, values, strict=True))

    def key_of(self, call: int) -> str:
        """The idempotency key of a call: the same in every attempt and World, another in every session and fork."""
        opened = self.writer.state.opened
        born = 0.0 if opened is None else opened.at_s
        names = (self.world.tenant, self.session, repr(born), str(call))
        return f"outlast-{digest(*(name.encode() for name in names))}"

    def job_of(self, state: CallState) -> str:
        """The name of a call's commands in the workspace: of the first, and what those of others begin with."""
        return state.intent.key or self.key_of(state.intent.call)

    def carry_steer(self, steer: TakenSteer, lane: str) -> None:
        """The next model intent, of `lane` if that is not empty, carries this steer."""
        self._steers.append((lane, steer))

    def take_steers(self, lane: str | None = None) -> Sequence[TakenSteer]:
        """Take those that an intent of `lane` carries; without one, all that are left."""
        taken = [steer for of, steer in self._steers if lane is None or of in {"", lane}]
        self._steers = [(of, steer) for of, steer in self._steers if steer not in taken]
        return taken
