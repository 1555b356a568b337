"""Which of a worker's agents can run on this machine, and in which versions."""

from collections.abc import Mapping
from typing import Final

import anyio.to_thread

from outlast.adapter import Agent
from outlast.clock import Clock
from outlast.errors import HarnessMissing
from outlast.logs import logger

LOOK_S: Final = 5.0
"""How long what was found is believed: a worker may claim many times a second, and each look reads some dozen files."""

log = logger("outlast.worker")


class Able:
    """Looks again and again: a harness may be installed, and removed, while its worker lives."""

    def __init__(self, agents: Mapping[str, Agent], clock: Clock) -> None:
        self._agents = agents
        self._clock = clock
        self._missing: set[str] = set()
        """Agents of which it was said that they are not offered."""
        self._found: Mapping[str, Mapping[str, str]] = {}
        self._until_s = -LOOK_S

    async def versions(self) -> Mapping[str, Mapping[str, str]]:
        """Of each agent that can run here the versions of its harness. Once for each that cannot, the log says why."""
        if (now_s := self._clock.elapsed()) >= self._until_s:
            self._found = await anyio.to_thread.run_sync(self._look)
            self._until_s = now_s + LOOK_S
        return self._found

    def _look(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for name, agent in self._agents.items():
            try:
                found[name] = agent.adapter.versions()
            except HarnessMissing as missing:
                if name not in self._missing:
                    log.warning("agent %s is not offered: %s", name, missing)
                self._missing.add(name)
            else:
                self._missing.discard(name)
        return found
