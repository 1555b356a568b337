"""What we ask OpenCode's own server for. Every answer has a deadline but that to a prompt, which takes the turn."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import httpx
import msgspec

from outlast.adapters.opencode.events import Stored, replayed
from outlast.adapters.opencode.launch import USER
from outlast.adapters.shapes import Json, as_object, as_objects
from outlast.errors import HarnessError
from outlast.trust import trusted

ANSWER_S: Final = 60.0
"""For what OpenCode answers at once; the first question also waits until it has loaded everything."""
SHOWN_MS: Final = 15_000
_GONE: Final = 404
_DATA: Final = b"data:"
ANSWER_BYTES: Final = 256 * 1024 * 1024
"""Of an answer, or of a line of its events: a session of months has less."""
_REPLAY: Final = 200
"""Events in one request."""


class Client:
    """A client of one process.

    Every method raises `HarnessError` when OpenCode cannot be reached or answers with an error.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def create(self, title: str, permission: Sequence[Mapping[str, str]]) -> str:
        """A new session; its id."""
        made = await self._ask("POST", "/session", {"title": title, "permission": list(permission)})
        return str(as_object(made)["id"])

    async def add_rules(self, session: str, permission: Sequence[Mapping[str, str]]) -> None:
        """Put permission rules behind those that a session has: of all that fit the last counts."""
        await self._ask("PATCH", f"/session/{session}", {"permission": list(permission)})

    async def agents(self) -> Sequence[Json]:
        """The agents that OpenCode knows."""
        return as_objects(await self._ask("GET", "/agent"))

    async def history(self, known: Mapping[str, int]) -> Sequence[Json]:
        """The events of each session after the number that is known of it."""
        return as_objects(await self._ask("POST", "/sync/history", dict(known)))

    async def replay(self, aggregate: str, events: Sequence[Stored], directory: str) -> None:
        """Make a session of its events."""
        told = replayed(aggregate, events, directory)
        for at in range(0, len(told), _REPLAY):
            await self._ask(
                "POST", "/sync/replay", {"directory": directory, "events": told[at : at + _REPLAY]}
            )

    async def say(self, session: str, body: Mapping[str, Any]) -> Json:
        """Say something, and wait until OpenCode has done what it asks for; its last message."""
        return as_object(await self._ask("POST", f"/session/{session}/message", body, timeout_s=None))

    async def note(self, session: str, body: Mapping[str, Any]) -> None:
        """Say something that OpenCode hears when it next asks its model."""
        await self._ask("POST", f"/session/{session}/message", {**body, "noReply": True})

    async def forget(self, session: str, message: str) -> None:
        """Take a message away."""
        await self._ask("DELETE", f"/session/{session}/message/{message}")

    async def put_part(self, part: Mapping[str, Any]) -> None:
        """Put a part of a message in the place of the one with its id."""
        path = f"/session/{part['sessionID']}/message/{part['messageID']}/part/{part['id']}"
        await self._ask("PATCH", path, part)

    async def abort(self, session: str) -> None:
        """Stop what a session does."""
        await self._ask("POST", f"/session/{session}/abort")

    async def show(self, title: str, text: str) -> None:
        """Show something on the screens that are attached."""
        body = {"title": title, "message": text, "variant": "error", "duration": SHOWN_MS}
        await self._ask("POST", "/tui/show-toast", body)

    async def permit(self, request: str, refusal: str | None) -> None:
        """Answer the question whether a tool may run; one that a refusal has answered along with its own is gone."""
        body = {"reply": "once"} if refusal is None else {"reply": "reject", "message": refusal}
        await self._ask("POST", f"/permission/{request}/reply", body, may_be_gone=True)

    async def above(self, session: str) -> str:
        """The session above this one; empty of a conversation of its own."""
        return str(as_object(await self._ask("GET", f"/session/{session}")).get("parentID") or "")

    async def last(self, session: str) -> Json:
        """The last message of a session; empty if it has none."""
        messages = as_objects(await self._ask("GET", f"/session/{session}/message?limit=1"))
        return messages[-1] if messages else {}

    async def events(self) -> AsyncIterator[Json]:
        """What happens, as it happens: the first says that it is listened to."""
        try:
            async with self._http.stream("GET", "/event", timeout=httpx.Timeout(ANSWER_S)) as response:
                if not response.is_success:
                    raise HarnessError(harness="OpenCode", reason=f"/event answered {response.status_code}")
                async for line in _lines(response):
                    if line.startswith(_DATA):
                        yield as_object(msgspec.json.decode(line.removeprefix(_DATA)))
        except httpx.HTTPError as broken:
            raise HarnessError(
                harness="OpenCode", reason=f"its events broke off ({type(broken).__name__})"
            ) from None

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = ANSWER_S,
        may_be_gone: bool = False,
    ) -> Any:
        try:
            async with self._http.stream(method, path, json=body, timeout=timeout_s) as response:
                content = await _content(response)
        except httpx.HTTPError as broken:
            reason = f"{method} {path} came to nothing ({type(broken).__name__})"
            raise HarnessError(harness="OpenCode", reason=reason) from None
        if may_be_gone and response.status_code == _GONE:
            return None
        if not response.is_success:
            said = content[:300].decode(errors="replace")
            reason = f"{method} {path} answered {response.status_code}: {said}"
            raise HarnessError(harness="OpenCode", reason=reason)
        return msgspec.json.decode(content) if content else None


async def _content(response: httpx.Response) -> bytes:
    """An answer, so far as it is one: what runs in a sandbox may answer without end."""
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > ANSWER_BYTES:
            raise _too_long()
    return bytes(content)


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    held = bytearray()
    async for piece in response.aiter_bytes():
        start = len(held)
        held += piece
        if (end := held.rfind(b"\n", start)) >= 0:
            for line in bytes(held[:end]).split(b"\n"):
                yield line.rstrip(b"\r")
            del held[: end + 1]
        if len(held) > ANSWER_BYTES:
            raise _too_long()


def _too_long() -> HarnessError:
    return HarnessError(harness="OpenCode", reason=f"an answer of it has more than {ANSWER_BYTES:,} bytes")


def client_of(base_url: str, password: str) -> httpx.AsyncClient:
    """A connection to OpenCode's server."""
    return httpx.AsyncClient(
        base_url=base_url, auth=(USER, password), trust_env=False, timeout=ANSWER_S, verify=trusted()
    )
