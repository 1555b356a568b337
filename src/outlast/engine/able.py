"""Which of a worker's agents can run on this machine, and in which versions."""

from collections.abc import Mapping

from outlast.adapter import Agent
from outlast.errors import HarnessMissing
from outlast.logs import logger

log = logger("outlast.worker")


class Able:
    """Looks each time: a harness may be installed, and removed, while its worker lives."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self._agents = agents
        self._missing: set[str] = set()
        """Agents of which it was said that they are not offered."""

    def versions(self) -> Mapping[str, Mapping[str, str]]:
        """Of each agent that can run here the versions of its harness. Once for each that cannot, the log says why."""
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
