"""The port by which an adapter says how its harness will ask its model, before a turn begins.

An adapter whose model calls come through the gateway keeps `Speaks` too: whoever begins a turn can then refuse one that
could not make its first request.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Speaks(Protocol):
    """An adapter whose harness asks its model through the gateway."""

    def dialect(self, settings: Mapping[str, Any]) -> str:
        """The dialect of a session with these settings, as in `outlast.adapter.Dialogue.dialect`.

        Empty where its model calls do not come through the gateway after all.

        Args:
            settings: what the session records, or would; what was chosen by flags stands in it too.

        Raises:
            BadSettings: with these no request could be made.
        """
        ...
