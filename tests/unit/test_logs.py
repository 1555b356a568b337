"""Log lines carry ids, never payloads."""

import ast
import errno
from pathlib import Path

import pytest

import outlast
from outlast.errors import BadPayload
from outlast.logs import logger, trace_of
from tests.parsing import parsed

SECRET = "the order of Ann Smith"
PACKAGE = Path(outlast.__file__).parent


def _read(words: str) -> None:
    raise KeyError(words)


def _understand(words: str) -> None:
    try:
        _read(words)
    except KeyError as error:
        raise BadPayload(what=repr(words), reason=words) from error


def test_a_trace_names_the_errors_and_the_lines_and_says_none_of_their_words() -> None:
    with pytest.raises(BadPayload) as raised:
        _understand(SECRET)
    raised.value.add_note(SECRET)
    told = trace_of(raised.value)
    assert SECRET not in told
    assert told.index("KeyError") < told.index("which led to") < told.index("outlast.errors.BadPayload")
    assert "in _read" in told
    assert "in _understand" in told


def test_a_trace_goes_into_groups_and_through_what_was_handled_and_ends() -> None:
    first, second = ValueError(SECRET), OSError(errno.ENOSPC, SECRET)
    first.__context__ = second
    second.__context__ = first
    told = trace_of(ExceptionGroup(SECRET, [first, second]))
    assert SECRET not in told
    assert told.count("ValueError") == 1
    assert "OSError (ENOSPC)" in told


def test_what_was_meant_to_be_hidden_is_not_in_a_trace() -> None:
    hidden = ValueError()
    hidden.__context__ = KeyError()
    hidden.__suppress_context__ = True
    assert "KeyError" not in trace_of(hidden)


def test_a_log_line_brings_the_trace_in_place_of_the_error(caplog: pytest.LogCaptureFixture) -> None:
    log = logger("outlast.test")
    try:
        _understand(SECRET)
    except BadPayload:
        log.exception("session %s is at 100 %%", "s-1")
    log.error("session %s", "s-2", exc_info=KeyError(SECRET))
    log.warning("session %s", "s-3")
    first, second, third = caplog.records
    assert first.getMessage().startswith("session s-1 is at 100 %\nKeyError\n")
    assert second.getMessage() == "session s-2\nKeyError"
    assert third.getMessage() == "session s-3"
    assert SECRET not in caplog.text


def test_every_logger_of_the_package_is_such_a_one() -> None:
    made = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "getLogger" in (text := path.read_text())
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger")
    }
    assert made == {"logs.py", "cli/options.py"}, "the latter only sets levels"
