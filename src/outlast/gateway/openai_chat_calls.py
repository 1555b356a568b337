"""The tool calls of a Chat Completions answer, put together from their pieces."""

from collections.abc import Sequence
from typing import Any, Final, NoReturn, cast

from outlast.gateway.sse import Malformed

_GROWS: Final = frozenset({"arguments", "input"})


class CallReader:
    """Puts calls together: a piece belongs to the call at its `index`; without one, to that of its id, or the last."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}

    def read(self, pieces: Sequence[object]) -> None:
        """Take the pieces of a chunk.

        Raises:
            Malformed: one is none, or clients would not agree on where it belongs.
        """
        for given in pieces:
            if not isinstance(given, dict):
                _malformed("a piece of a tool call is no object")
            piece = cast("dict[str, Any]", given)
            place = self._place(piece)
            call = self._calls.setdefault(place, {})
            if piece.get("id") and call.get("id") not in {None, "", piece["id"]}:
                _malformed("two tool calls stand at the same place")
            for key, value in piece.items():
                if isinstance(value, dict):
                    self._inside(place, call, key, cast("dict[str, Any]", value))
                elif key != "index" and value and not call.get(key):
                    call[key] = value

    def _inside(self, place: int, call: dict[str, Any], key: str, piece: dict[str, Any]) -> None:
        inner: dict[str, Any] = call.setdefault(key, {})
        for name, value in piece.items():
            if name in _GROWS and isinstance(value, str):
                self._texts.setdefault((place, name), []).append(value)
                inner.setdefault(name, "")
            elif value and not inner.get(name):
                inner[name] = value
            elif value and value != inner[name]:
                _malformed(f"a tool call says its {name} twice, and otherwise")  # some clients join the two

    def _place(self, piece: dict[str, Any]) -> int:
        index = piece.get("index")
        if isinstance(index, int):
            return index
        ids = {call.get("id"): place for place, call in self._calls.items()}
        last = max(self._calls, default=-1)
        return ids.get(piece["id"], last + 1) if piece.get("id") else max(last, 0)

    def calls(self) -> list[dict[str, Any]]:
        """All calls, in their places."""
        return [self._whole(place, call) for place, call in sorted(self._calls.items())]

    def _whole(self, place: int, call: dict[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = {"type": "function", **call}
        for (at, name), pieces in self._texts.items():
            for key, inner in call.items():
                if at == place and isinstance(inner, dict) and name in inner:
                    whole[key] = {**inner, name: "".join(pieces)}
        return whole


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
