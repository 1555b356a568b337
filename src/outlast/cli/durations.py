"""Lengths of time on the command line."""

import re
from typing import Final

import click

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds_of(text: str) -> float:
    """Seconds of `840s`, `14m`, `1h30m`, `2d`; a bare number is seconds.

    Raises:
        ValueError: it is none of these, or no time at all.
    """
    plain = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        plain += "s"
    if not re.fullmatch(f"(?:{_PART.pattern})+", plain):
        raise ValueError(f"{text!r} is no length of time; write 840s, 14m, 1h30m or 2d")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(plain))
    if not 0 < seconds < 1e10:
        raise ValueError(f"{text!r} is no time to work in")
    return seconds


class Duration(click.ParamType[float]):
    """A length of time, as seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of what was written."""
        if isinstance(value, float):
            return value
        try:
            return seconds_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()
