"""One process of OpenCode, from its start to the end of the turn."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from anyio.abc import TaskGroup

from outlast.adapter import Attachment, Attempt, Process, TakenSteer, TurnResult
from outlast.adapters.opencode.client import Client, client_of
from outlast.adapters.opencode.conversation import Ready
from outlast.adapters.opencode.dialogue import OpenCodeDialogue
from outlast.adapters.opencode.ending import failed_by, result_of
from outlast.adapters.opencode.events import Message, permission_of
from outlast.adapters.opencode.launch import ModelName
from outlast.adapters.opencode.listening import START_S, base_url_of, failed
from outlast.adapters.opencode.mirror import Mirror
from outlast.adapters.opencode.names import is_named, message_id, part_id
from outlast.adapters.opencode.permissions import (
    Permissions,
    asks_about_all,
    rules_of,
    session_rules,
    typed_rules,
)
from outlast.adapters.opencode.results import ended_part, settle_failure
from outlast.adapters.opencode.terminal import at_terminal
from outlast.adapters.shapes import Json, as_object
from outlast.attaching import data_url, images_of, worded
from outlast.errors import HarnessError
from outlast.groups import task_group


class Driver:
    """Speaks with one process."""

    def __init__(
        self,
        attempt: Attempt,
        process: Process,
        dialogue: OpenCodeDialogue,
        ready: Ready,
        *,
        model: ModelName | None,
        agent: str,
    ) -> None:
        self._attempt = attempt
        self._process = process
        self._dialogue = dialogue
        self._ready = ready
        self._model = model
        self._agent = agent
        self._session = ready.session
        self._listened = asyncio.Event()
        self._news = asyncio.Event()
        self._noted: dict[str, str] = {}
        """Steers that OpenCode was told in this attempt, by the id of their message."""

    async def run(self, password: str) -> TurnResult:
        """Carry the turn to its end."""
        lines = self._process.lines()
        base_url = await base_url_of(self._process, lines)
        async with client_of(base_url, password) as http, task_group() as tasks:
            client = Client(http)
            tasks.start_soon(self._drain, lines)
            permissions = Permissions(self._attempt, client)
            tasks.start_soon(self._listen, client, permissions)
            try:
                result = await self._turn(client, permissions, tasks)
            finally:
                self._dialogue.hang_up()
            tasks.cancel_scope.cancel()
        return result

    async def _turn(self, client: Client, permissions: Permissions, tasks: TaskGroup) -> TurnResult:
        try:
            async with asyncio.timeout(START_S):
                await self._listened.wait()
        except TimeoutError:
            raise self._error(f"it has not loaded what it needs after {START_S:g} s") from None
        mirror = Mirror(self._attempt, client, self._ready.known)
        agents = await client.agents()
        permissions.rules = rules_of(agents, self._said_to())
        await self._put_back(client, rules_of(agents, self._agent))
        self._dialogue.record, self._dialogue.news = mirror.take, self._news.set
        tasks.start_soon(self._follow, mirror)
        self._dialogue.session = self._session
        tasks.start_soon(self._expect_a_request)
        tasks.start_soon(self._steer, client)
        last = await client.say(self._session, await self._body())
        self._dialogue.over = True
        await self._forget_late_steers(client)
        await mirror.take()
        return result_of(last)

    async def _follow(self, mirror: Mirror) -> None:
        """Mirror what OpenCode writes while its model is asked."""
        while True:
            await self._news.wait()
            self._news.clear()
            await mirror.take()

    # the process

    async def _drain(self, lines: AsyncIterator[bytes]) -> None:
        async for _ in lines:
            pass
        raise self._error("it ended before its turn")

    async def _expect_a_request(self) -> None:
        try:
            async with asyncio.timeout(START_S):
                await self._dialogue.heard.wait()
        except TimeoutError:
            raise self._error(f"it has asked for nothing within {START_S:g} s") from None

    def _error(self, what: str) -> HarnessError:
        return failed(self._process, what)

    # what was, put back

    async def _put_back(self, client: Client, rules: Sequence[Mapping[str, Any]]) -> None:
        ready, directory = self._ready, str(self._attempt.places.cwd)
        typed = at_terminal(self._attempt.settings)
        if not ready.session:
            given = typed_rules() if typed else session_rules(rules)
            self._session = await client.create(f"outlast {self._attempt.session}", given)
            return
        await client.replay(ready.session, ready.kept.events, directory)
        for name, events in ready.others.items():
            await client.replay(name, events, directory)
        given = permission_of(ready.kept.events)
        if not typed and not asks_about_all(given):
            await client.add_rules(ready.session, session_rules([*rules, *given]))
        now_ms = int(self._attempt.clock.now() * 1000)
        for part in ready.kept.dangling:
            result = ready.results[str(part.get("callID", ""))]
            await client.put_part(ended_part(part, result.status, result.value, now_ms))

    # what is said

    def _said_to(self) -> str:
        """The agent that the turn's prompt was said to: at a terminal its user may have chosen another."""
        asked = self._ready.kept.asked if self._ready.kept.begun else None
        return self._agent if asked is None else str(asked.info.get("agent") or self._agent)

    async def _body(self) -> Mapping[str, Any]:
        turn, asked = self._attempt.turn, self._ready.kept.asked
        if self._ready.kept.begun and asked is not None:
            return said_again(asked)
        attached = await self._attempt.attachments()
        words = worded(self._attempt.prompt, attached)
        body = self._said(self._ready.prompt, part_id(turn.input, turn.at_s), words)
        return {
            **body,
            "parts": [*body["parts"], *map(self._part, range(len(attached)), images_of(attached))],
        }

    def _part(self, place: int, image: Attachment) -> Json:
        turn = self._attempt.turn
        # Its parts stand in the order of their names.
        named = part_id(f"{turn.input} {place}", turn.at_s + (place + 1) / 1000)
        return {
            "id": named,
            "type": "file",
            "mime": image.media_type,
            "filename": image.name,
            "url": data_url(image),
        }

    def _said(self, message: str, part: str, text: str) -> Mapping[str, Any]:
        body: Json = {"messageID": message, "parts": [{"id": part, "type": "text", "text": text}]}
        if self._model is not None:
            body["model"] = {"providerID": self._model.provider, "modelID": self._model.model}
        return {**body, "agent": self._agent} if self._agent else body

    async def _steer(self, client: Client) -> None:
        await self._dialogue.heard.wait()  # the prompt is said: what comes now comes behind it
        async for steer in self._attempt.steers.arrivals():
            if self._dialogue.over:
                return  # it becomes the next prompt
            if not any(is_named(one.id, steer.input) for one in self._ready.kept.messages):
                await self._note(client, steer)

    async def _note(self, client: Client, steer: TakenSteer) -> None:
        now_s = self._attempt.clock.now()
        message = message_id(steer.input, now_s)
        self._noted[message] = steer.input
        await client.note(self._session, self._said(message, part_id(steer.input, now_s), steer.text))

    async def _forget_late_steers(self, client: Client) -> None:
        """What no request has carried is the next prompt, and must not stand in the conversation twice."""
        waiting = {steer.input for steer in self._attempt.steers.waiting()}
        here = {one.id for one in self._ready.kept.messages if not one.is_answer}
        for message, steer in self._noted.items():
            if steer in waiting:
                await client.forget(self._session, message)
        for message in here:
            if any(is_named(message, steer) for steer in waiting):
                await client.forget(self._session, message)

    # what happens

    async def _listen(self, client: Client, permissions: Permissions) -> None:
        async with task_group() as answers:
            async for event in client.events():
                self._listened.set()
                about = as_object(event.get("properties"))
                match event.get("type"):
                    case "permission.asked":
                        answers.start_soon(permissions.answer, about)
                    case "session.status":
                        status = as_object(about.get("status"))
                        if status.get("type") == "retry":
                            raise failed_by(status)
                    case "message.part.updated":
                        part = as_object(about.get("part"))
                        answers.start_soon(self._heal, client, part)
                        answers.start_soon(settle_failure, self._attempt, part)
                    case _:
                        pass
        raise self._error("its events ended before its turn")

    async def _heal(self, client: Client, part: Json) -> None:
        """Give a call that had ended and was not run again its own result back, in OpenCode's files too."""
        result = self._ready.results.get(str(part.get("callID", "")))
        if part.get("type") != "tool" or result is None or result.status != "ok":
            return
        if as_object(part.get("state")).get("status") == "error":
            now_ms = int(self._attempt.clock.now() * 1000)
            await client.put_part(ended_part(part, result.status, result.value, now_ms))


def said_again(message: Message) -> Mapping[str, Any]:
    """A message of a person as it was said, under its own names: OpenCode goes on with what it asks for."""
    info = message.info
    kept = {name: info[name] for name in ("agent", "model", "tools", "system", "format") if info.get(name)}
    model = as_object(kept.get("model"))
    if model.get("variant"):
        kept["variant"] = model["variant"]
    if model:
        kept["model"] = {"providerID": model.get("providerID"), "modelID": model.get("modelID")}
    parts = [
        {name: value for name, value in part.items() if name not in {"sessionID", "messageID"}}
        for part in message.parts.values()
    ]
    return {"messageID": message.id, **kept, "parts": parts}
