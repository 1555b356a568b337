"""Three runs beside each other in the terminal, as they happen; without a terminal one line after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

import anyio
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from outlast.cli.demo.pricing.bill import NAMES
from outlast.cli.text import plain

LEAST: Final = 6
"""Lines of each that are shown, however low the terminal is; the newest."""
_AROUND: Final = 4
"""Lines that are none of them: the frame, and where the cursor stands."""


@dataclass
class Columns:
    """A context: the columns move as long as it lasts, and stand still then."""

    console: Console
    _lines: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in NAMES})
    _live: Live | None = None
    _begun: float = 0.0

    def __enter__(self) -> Self:
        self._begun = anyio.current_time()
        if self.console.is_terminal:
            self._live = Live(self._drawn(), console=self.console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def teller(self, run: str) -> Callable[[str], None]:
        """What adds lines to the column of a run."""

        def say(text: str) -> None:
            line = plain(f"{anyio.current_time() - self._begun:5.1f} {text}")
            self._lines[run].append(line)
            if self._live is None:
                self.console.print(f"{NAMES[run]:17} {line}", markup=False, highlight=False)
            else:
                self._live.update(self._drawn(), refresh=True)

        return say

    def _drawn(self) -> Table:
        table = Table.grid(expand=True)
        for _ in NAMES:
            table.add_column(ratio=1)
        table.add_row(*(self._panel(name) for name in NAMES))
        return table

    def _panel(self, name: str) -> Panel:
        most = max(LEAST, self.console.height - _AROUND)
        rows = self._lines[name][-most:]
        text = Text("\n".join([*rows, *[""] * (most - len(rows))]), no_wrap=True, overflow="ellipsis")
        return Panel(text, title=NAMES[name], title_align="left")
