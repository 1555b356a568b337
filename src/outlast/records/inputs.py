"""What comes from outside into the inbox."""

from typing import TypeAlias

import msgspec


class Prompt(msgspec.Struct, frozen=True, tag="prompt", tag_field="kind", omit_defaults=True):
    """Begin a turn with this text; queued behind a turn that runs."""

    text: str
    sent_at_s: float = 0.0


class Steer(msgspec.Struct, frozen=True, tag="steer", tag_field="kind", omit_defaults=True):
    """Tell the running turn something; it becomes the next prompt if its turn never takes it."""

    text: str
    turn: int | None = None
    sent_at_s: float = 0.0


class Cancel(msgspec.Struct, frozen=True, tag="cancel", tag_field="kind", omit_defaults=True):
    """End this turn. A cancel that names another turn than the open one changes nothing."""

    turn: int
    reason: str = ""
    sent_at_s: float = 0.0


AnyInput: TypeAlias = Prompt | Steer | Cancel
