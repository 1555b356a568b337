"""Which calls a hook of the user's own wants a person asked about.

Where a rule wants every call asked about, as ours does, Claude Code's question names that rule, whatever hooks have
answered. So the answers are read from the events that it shows of every hook. Those name the tool and not the call; but
the hooks of one call are started together, and the answer of ours, which is always among them, names it.
"""

from dataclasses import dataclass, field

from outlast.adapters.claude_code.stream import Asked, Event, HookEnded, HookStarted, Mirrored


@dataclass(slots=True, eq=False)
class _Burst:
    """Hooks that were started together; of one call, as a rule."""

    tool: str
    born: int
    """As which event of the process they were started."""
    running: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])
    """Those that our hook has answered for."""
    asked: int = 0
    """As which event one of them first answered that a person is to be asked; 0: none has."""
    asked_up_to: int = 0
    """The newest call of the log when one last did."""


class UserHooks:
    """What the hooks of one process have answered so far.

    Hooks of one call may be started in two parts: managed ones first, the others when those have ended. So an answer
    that came without ours counts for every call that it may have been about: of that tool, asked for by the model by
    then, and with no hooks of its own started yet that ours is among.
    """

    def __init__(self) -> None:
        self._events = 0
        self._starting: _Burst | None = None
        self._bursts: dict[str, _Burst] = {}
        """By running hook."""
        self._of_call: dict[str, _Burst] = {}
        self._asking: list[_Burst] = []
        self._in_parts = False
        """A burst without ours was seen: what else is in a burst with ours need not be of the same call."""

    def take(self, event: Event, newest: int) -> None:
        """Read an event; `newest` is the newest call of the log."""
        self._events += 1
        match event:
            case HookStarted(hook, tool):
                self._start(hook, tool)
            case HookEnded():
                self._starting = None
                self._end(event, newest)
            case Mirrored():  # comes at any time
                pass
            case _:
                self._starting = None

    def want_person(self, asked: Asked, number: int) -> bool:
        """Whether a person is to be asked about a call; `number` is its number in the log. All its hooks have ended."""
        own = self._of_call.pop(asked.call, None)
        if own is not None and own.asked:
            return True
        born = self._events if own is None else own.born
        return any(
            burst.tool == asked.name and number <= burst.asked_up_to and burst.asked < born
            for burst in self._asking
            if self._in_parts or not burst.calls
        )

    def _start(self, hook: str, tool: str) -> None:
        if self._starting is None or self._starting.tool != tool:
            self._starting = _Burst(tool, self._events)
        self._starting.running.add(hook)
        self._bursts[hook] = self._starting

    def _end(self, ended: HookEnded, newest: int) -> None:
        burst = self._bursts.pop(ended.hook, None)
        if burst is None:
            return
        burst.running.discard(ended.hook)
        if ended.call:
            burst.calls.add(ended.call)
            self._of_call[ended.call] = burst
        if ended.wants_person:
            if not burst.asked:
                burst.asked = self._events
                self._asking.append(burst)
            burst.asked_up_to = newest
        if not burst.running and not burst.calls:
            self._in_parts = True
