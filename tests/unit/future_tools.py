"""Tools of a module whose annotations are text, and whose `ToolIO` exists for type checkers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outlast import Tool, tool

if TYPE_CHECKING:
    from outlast import ToolIO, Verdict


@dataclass
class Order:
    """An order of the shop."""

    number: int
    items: list[str]


@tool
async def ship(io: ToolIO, order: Order, express: bool = False) -> Verdict:  # noqa: FBT001, FBT002 - as users write it
    """Ship an order."""
    raise NotImplementedError


def made_inside() -> Tool:
    """A tool whose argument's type lives in the function around it."""

    @dataclass
    class Parcel:
        grams: int

    @tool
    async def weigh(io: ToolIO, parcel: Parcel) -> int:
        """Weigh a parcel."""
        return parcel.grams

    return weigh
