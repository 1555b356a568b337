"""What the stage of the demo and its tools, which run in the workers, call by the same name."""

from typing import Final

LEDGER_VARIABLE: Final = "OUTLAST_DEMO_LEDGER"
"""Names the file that stands for the outside world."""
BANK: Final = "bank-is-open"
"""The file beside it that is there while the bank answers questions."""
