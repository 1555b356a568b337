"""The audit line: who did what to which session, as JSON, with ids alone."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from outlast.clock import Clock
from outlast.logs import logger
from outlast.server.access import Identity

log = logger("outlast.audit")


class Audit:
    """Writes one line for every decision, erasure, fork, export and change of who may ask.

    To the logger `outlast.audit`, at `info`, one JSON object each: an operator sends it wherever it must be kept.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        log.setLevel(logging.INFO)  # whatever else is written: who did what is no chatter

    def __call__(self, identity: Identity, what: str, ids: Mapping[str, Any]) -> None:
        """Write that `identity` did `what`; `ids` are names and numbers, never content."""
        line = {
            "at_s": self._clock.now(),
            "who": identity.name,
            "tenant": identity.tenant,
            "what": what,
            **ids,
        }
        log.info("%s", msgspec.json.encode(line).decode())
