"""One process of Codex, from its start to the end of the turn."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from outlast.adapter import Attempt, Process, TurnResult
from outlast.adapters.codex.dialogue import CodexDialogue
from outlast.adapters.codex.ending import result_of
from outlast.adapters.codex.files import SessionFiles
from outlast.adapters.codex.launch import APPROVAL, PROVIDER, Launch, hook_keys, thread_params
from outlast.adapters.codex.results import of_command, of_ours
from outlast.adapters.codex.rpc import AppServer, Failure
from outlast.adapters.shapes import Json, as_object, as_objects
from outlast.attaching import data_url, images_of, worded
from outlast.errors import HarnessError

START_S: Final = 60.0
"""How long Codex may take from its start to its first request."""
CLOSING_S: Final = 10.0
"""How long Codex may take to end after the turn is over."""
LOOK_S: Final = 0.25
"""How often the rollout is looked at while Codex says nothing."""
REST_S: Final = 0.05
"""How long it is not looked at after that: much of what Codex says comes at once, and before each model request and
each tool it is looked at in any case."""
OUTPUT_S: Final = 1.0
"""How long the output of a command that has ended may take to come to stand in the rollout: until all that were called
together have ended it does not."""
UNTOLD: Final = (
    "account/rateLimits/updated", "hook/completed", "hook/started", "item/agentMessage/delta",
    "item/commandExecution/outputDelta", "item/fileChange/outputDelta", "item/plan/delta",
    "item/reasoning/summaryPartAdded", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta", "item/started",
    "thread/status/changed", "thread/tokenUsage/updated", "turn/diff/updated", "turn/plan/updated",
)  # fmt: skip
"""What Codex need not tell: the gateway hears its model before it does, and its rollout has the rest."""
REVIEWER: Final = "user"
"""Whom Codex asks for approval: us, in the place of its user."""

_MESSAGES: Final = "agentMessage"
_COMMANDS: Final = "commandExecution"


class Driver:
    """Tells the process what to do, reads what it says, and answers."""

    def __init__(
        self, attempt: Attempt, files: SessionFiles, process: Process, dialogue: CodexDialogue, launch: Launch
    ) -> None:
        self._attempt = attempt
        self._files = files
        self._process = process
        self._dialogue = dialogue
        self._launch = launch
        self._server = AppServer(process, self._answer, self._take)
        self._news = asyncio.Event()
        self._end: Json | None = None
        self._ended = asyncio.Event()
        self._said = ""
        self._unheard: dict[str, tuple[float, str]] = {}
        """Commands that have ended and whose output does not stand in the rollout yet: when, and what it is."""

    async def run(self, *, say_prompt: bool) -> TurnResult:
        """Carry the turn to its end."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read(tasks))
            await self._begin(say_prompt=say_prompt)
            beside = [
                tasks.create_task(self._steer()),
                tasks.create_task(self._mirror()),
                tasks.create_task(self._expect_a_request()),
            ]
            await self._ended.wait()
            for task in beside:
                task.cancel()
            await self._process.close_stdin()
            # A process that does not end is not waited for any longer: it is killed with the attempt.
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_S):
                    await asyncio.wait({reading})
            reading.cancel()
        await self._files.mirror()
        if self._end is None:
            raise HarnessError(harness="Codex", reason=f"it ended before its turn. {self._process.errors()}")
        return result_of(self._end, self._said)

    async def _begin(self, *, say_prompt: bool) -> None:
        about = {"name": PROVIDER, "title": None, "version": "1"}
        try:
            able = {"experimentalApi": True, "optOutNotificationMethods": UNTOLD}
            await self._server.call("initialize", {"clientInfo": about, "capabilities": able})
            await self._server.tell("initialized")
            cwd = self._attempt.places.cwd
            await self._check_hooks(cwd)
            loaded = await self._server.call("thread/resume", thread_params(self._launch, cwd))
            check_gates(loaded, self._launch.approval)
            said = await self._said_now() if say_prompt else []
            started = await self._server.call(
                "turn/start",
                {
                    "threadId": self._launch.thread,
                    "input": said,
                    **({"clientUserMessageId": self._files.prompt} if say_prompt else {}),
                },
            )
        except Failure as failure:
            raise HarnessError(harness="Codex", reason=str(failure)) from None
        self._turn = str(as_object(started.get("turn")).get("id", ""))

    async def _said_now(self) -> list[Json]:
        """The prompt, as the input of a turn."""
        attached = await self._attempt.attachments()
        images: list[Json] = [{"type": "image", "url": data_url(one)} for one in images_of(attached)]
        return [*images, {"type": "text", "text": worded(self._attempt.prompt, attached)}]

    async def _check_hooks(self, cwd: Path) -> None:
        """The second gate stands, or nothing begins: hooks that are wrong in any way are left out without a word."""
        listed = await self._server.call("hooks/list", {"cwds": [str(cwd)]})
        wanted = hook_keys(self._launch)
        places = as_objects(listed.get("data"))
        found = {str(hook.get("key")): hook for place in places for hook in as_objects(place.get("hooks"))}
        for key, trust in wanted.items():
            hook = found.get(key, {})
            if (
                not hook.get("enabled")
                or hook.get("trustStatus") != "trusted"
                or hook.get("currentHash") != trust
            ):
                errors = " ".join(str(error) for place in places for error in place.get("errors") or ())
                name = key.rsplit("/", 1)[-1]
                reason = f"its hook {name} is not in force, so its tools would run unasked. {errors}"
                raise HarnessError(harness="Codex", reason=reason)

    async def _read(self, tasks: asyncio.TaskGroup) -> None:
        await self._server.read(tasks)
        self._ended.set()

    async def _take(self, method: str, params: Json) -> None:
        if params.get("threadId") not in {None, self._launch.thread}:
            return
        self._news.set()
        match method:
            case "item/completed":
                self._take_item(as_object(params.get("item")))
            case "turn/completed":
                self._end = as_object(params.get("turn"))
                self._dialogue.over = True
                self._ended.set()
            case _:
                pass

    def _take_item(self, item: Json) -> None:
        if item.get("type") == _MESSAGES:
            self._said = str(item.get("text", ""))
        elif item.get("type") == _COMMANDS and item.get("exitCode") is not None:
            now = asyncio.get_running_loop().time()
            self._unheard[str(item.get("id", ""))] = (now, of_command(item))

    async def _answer(self, method: str, params: Json) -> Mapping[str, Any] | None:
        match method:
            case "item/tool/call":
                return await self._run_tool(params)
            case "item/commandExecution/requestApproval" | "item/fileChange/requestApproval":
                granted = await self._is_granted(str(params.get("itemId", "")))
                return {"decision": "accept" if granted else "decline"}
            case "item/tool/requestUserInput":
                return {"answers": {}}
            case "mcpServer/elicitation/request":
                granted = await self._is_granted(await self._call_over_mcp(params))
                return {"action": "accept", "content": {}} if granted else {"action": "decline"}
            case _:
                return None

    async def _run_tool(self, params: Json) -> Mapping[str, Any]:
        await self._files.mirror()
        result = await self._attempt.calls.run_tool(
            str(params.get("tool", "")),
            as_object(params.get("arguments")),
            harness_id=str(params.get("callId", "")),
        )
        return of_ours(result)

    async def _is_granted(self, harness_id: str) -> bool:
        """The third gate: a tool runs only if the log says that this attempt let it begin, and its prompt is safe."""
        intent = self._attempt.calls.intent_of(harness_id)
        if intent is None or intent.runs_in != "harness" or self._launch.approval != APPROVAL:
            # What a Codex at a terminal asks about, its user decides, who is not here.
            return False
        state = self._attempt.turn.calls[intent.call]
        if not state.open or state.started != self._attempt.fence:
            return False
        await self._files.mirror()
        return self._files.said

    async def _call_over_mcp(self, params: Json) -> str:
        """The id of the call to another MCP server that an approval is about: it names tool and arguments only."""
        about = as_object(params.get("_meta"))
        name = f"mcp__{params.get('serverName', '')}__{about.get('tool_name', '')}"
        for state in self._attempt.turn.open_calls():
            intent = state.intent
            begun = intent.name == name and state.started == self._attempt.fence
            if begun and await self._attempt.arguments(intent.call) == about.get("tool_params"):
                return intent.harness_id
        return ""

    async def _mirror(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._news.wait()
            self._news.clear()
            await self._files.mirror()
            await self._settle_unheard()
            await asyncio.sleep(REST_S)

    async def _settle_unheard(self) -> None:
        now = asyncio.get_running_loop().time()
        due = [call for call, (at, _) in self._unheard.items() if now - at > OUTPUT_S]
        for call in due:
            await self._files.settle(call, self._unheard.pop(call)[1])

    async def _expect_a_request(self) -> None:
        try:
            async with asyncio.timeout(START_S):
                await self._dialogue.heard.wait()
        except TimeoutError:
            reason = f"it has asked for nothing within {START_S:g} s. {self._process.errors()}"
            raise HarnessError(harness="Codex", reason=reason) from None

    async def _steer(self) -> None:
        async for steer in self._attempt.steers.arrivals():
            told = {
                "threadId": self._launch.thread,
                "expectedTurnId": self._turn,
                "input": [{"type": "text", "text": steer.text}],
                "clientUserMessageId": self._files.steer_id(steer.input),
            }
            # Too late for this turn, it becomes the next prompt.
            with suppress(Failure):
                await self._server.call("turn/steer", told)


def check_gates(loaded: Json, approval: str) -> None:
    """The first gate and the third stand, or nothing begins: a thread may bring settings of its own.

    Args:
        loaded: what Codex says of the thread that it goes on with.
        approval: when Codex is to ask whether a tool may run.

    Raises:
        HarnessError: one of them would be gone round.
    """
    # Whom it asks is not told by every version; it may be a model in the place of us.
    said = {"approvalsReviewer": REVIEWER, **loaded}
    for name, ours in (
        ("modelProvider", PROVIDER),
        ("approvalPolicy", approval),
        ("approvalsReviewer", REVIEWER),
    ):
        if said.get(name) != ours:
            reason = f"it goes on with {name} = {said.get(name)!r}, where outlast has set {ours!r}"
            raise HarnessError(harness="Codex", reason=reason)
