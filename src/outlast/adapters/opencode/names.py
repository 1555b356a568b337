"""The names that we give to messages in OpenCode, in its own form, which sorts by time."""

from typing import Final

from outlast.ids import digest
from outlast.wrapping import TYPED

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH: Final = 14


def message_id(name: str, at_s: float) -> str:
    """The id of a message: the same for the same name and Unix time. Two of the same name end alike.

    What was typed into OpenCode itself has its own id of it as its name.
    """
    if name.startswith(TYPED):
        return name.removeprefix(TYPED)
    return f"msg_{_time(at_s)}{_tail(name)}"


def part_id(name: str, at_s: float) -> str:
    """The id of the text of that message."""
    return f"prt_{_time(at_s)}{_tail(name)}"


def is_named(message: str, name: str) -> bool:
    """Whether a message was given its id by `message_id` for `name`, whenever that was."""
    return message == name.removeprefix(TYPED) or (
        message.startswith("msg_") and message.endswith(_tail(name))
    )


def _time(at_s: float) -> str:
    return f"{int(at_s * 1000) * 0x1000 & 0xFFFFFFFFFFFF:012x}"


def _tail(name: str) -> str:
    number = int.from_bytes(digest(b"opencode", name.encode()).encode(), "big")
    tail = ""
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        tail += _DIGITS[digit]
    return tail
