"""Log lines carry ids, never payloads: of an error what it is and where it was raised, none of its words.

An error's words are made of what was at hand, and that may be a prompt, an answer or a tool's arguments.
"""

import errno
import logging
import traceback
from collections.abc import Iterator
from typing import Final, cast


def logger(name: str) -> logging.Logger:
    """The logger `name`, which writes `trace_of` an error where others would write the error."""
    found = logging.getLogger(name)
    found.addFilter(WITHOUT_WORDS)
    return found


def trace_of(error: BaseException) -> str:
    """`error` and what led to it: the name of each, and the lines of code that it came through."""
    return "\n".join(_lines(error, set()))


class _WithoutWords(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            record.msg, record.args = f"{record.getMessage()}\n{trace_of(error)}", None
            record.exc_info = record.exc_text = None
        return True


WITHOUT_WORDS: Final[logging.Filter] = _WithoutWords()
"""Does it for one logger, or for all that comes to one handler."""


def _lines(error: BaseException, told: set[int]) -> Iterator[str]:
    told.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in told:
        yield from _lines(before, told)
        yield "which led to"
    yield _name_of(error)
    for frame in traceback.format_tb(error.__traceback__):
        yield frame.rstrip("\n")
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield "in it"
            yield from _lines(inner, told)


def _name_of(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    known = errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
    return f"{name} ({known})" if known else name
