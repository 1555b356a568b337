"""What the stage of the demo and its players, which run in the workers, call by the same name."""

import os
from pathlib import Path
from typing import Final

LEDGER_VARIABLE: Final = "OUTLAST_DEMO_LEDGER"
"""Names the file that stands for the outside world; the other props lie beside it."""
LEDGER: Final = "ledger.txt"
BANK: Final = "bank-is-open"
"""The file that is there while the bank answers questions."""
SPARED: Final = "spared"
"""The file that is there once nobody will be killed any more."""
PARCEL: Final = "parcel"
"""The signal that the loop waits for."""


def ledger() -> Path:
    """The file that stands for the outside world: one line for each card that was charged."""
    return Path(os.environ[LEDGER_VARIABLE])


def stands(prop: str) -> bool:
    """Whether a prop is on the stage."""
    return ledger().with_name(prop).exists()
