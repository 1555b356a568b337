"""The tool calls of a Chat Completions answer, put together from their pieces."""

from collections.abc import Sequence
from typing import Any, Final, NoReturn, cast

from outlast.gateway.sse import Malformed

_GROWS: Final = frozenset({"arguments", "input"})


class CallReader:
    """Puts calls together: a piece belongs to the call at its `index`; without one, to that of its id, or the last."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, Any]] = {}

    def read(self, pieces: Sequence[object]) -> None:
        """Take the pieces of a chunk.

        Raises:
            Malformed: one is none, or clients would not agree on where it belongs.
        """
        for given in pieces:
            if not isinstance(given, dict):
                _malformed("a piece of a tool call is no object")
            piece = cast("dict[str, Any]", given)
            call = self._calls.setdefault(self._place(piece), {})
            if piece.get("id") and call.get("id") not in {None, "", piece["id"]}:
                _malformed("two tool calls stand at the same place")
            _grow(call, {key: value for key, value in piece.items() if key != "index"})

    def _place(self, piece: dict[str, Any]) -> int:
        index = piece.get("index")
        if isinstance(index, int):
            return index
        ids = {call.get("id"): place for place, call in self._calls.items()}
        last = max(self._calls, default=-1)
        return ids.get(piece["id"], last + 1) if piece.get("id") else max(last, 0)

    def calls(self) -> list[dict[str, Any]]:
        return [{"type": "function", **call} for _, call in sorted(self._calls.items())]


def _grow(whole: dict[str, Any], piece: dict[str, Any]) -> None:
    for key, value in piece.items():
        held = whole.get(key)
        if value is None:
            continue
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", held) if isinstance(held, dict) else {}
            whole[key] = inner
            _grow(inner, cast("dict[str, Any]", value))
        elif key in _GROWS and isinstance(value, str):
            whole[key] = str(held or "") + value
        elif not held:
            whole[key] = value


def check_calls(calls: object) -> None:
    """Refuse calls that could not be told apart or have no name.

    Raises:
        Malformed
    """
    if not isinstance(calls, list):
        _malformed("the tool calls are no list")
    seen: set[str] = set()
    for given in cast("list[object]", calls):
        call = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        inner: object = call.get("custom" if call.get("type") == "custom" else "function")
        name = cast("dict[str, Any]", inner).get("name") if isinstance(inner, dict) else None
        call_id = call.get("id")
        if not (isinstance(call_id, str) and call_id and isinstance(name, str) and name):
            _malformed("a tool call has no id or no name")
        if call_id in seen:
            _malformed(f"two tool calls have the id {call_id!r}")
        seen.add(call_id)


def _malformed(reason: str) -> NoReturn:
    raise Malformed(reason)
