from typing import Any

import anyio
import httpx
import pytest

from outlast.adapter import HookAsk, Let, ToolResult
from outlast.errors import AttemptLost, TurnStopped
from outlast.gate import Point
from outlast.gateway import Limits
from tests.gateway.reference import MemoryAttempt, MemoryCalls, PlainDialogue
from tests.gateway.stage import RawProvider, Reply, stage

BEFORE = {"id": "t1", "name": "Bash", "input": {"command": "ls"}}
PROVIDER = RawProvider(Reply())


def denied(answer: dict[str, Any]) -> bool:
    specific = answer.get("hookSpecificOutput", {})
    return answer.get("decision") in {"deny", "block"} or specific.get("permissionDecision") == "deny"


async def test_a_granted_call_is_let_and_the_log_knows_that_it_may_have_begun() -> None:
    async with stage(PROVIDER) as on:
        on.attempt.calls.grant("t1")
        assert await on.hook("before", BEFORE) == {"decision": "allow"}
        assert on.attempt.calls.started == ["t1"]


async def test_a_call_that_the_log_does_not_know_is_denied() -> None:
    async with stage(PROVIDER) as on:
        assert denied(await on.hook("before", BEFORE))


async def test_a_settled_call_is_denied_with_its_result() -> None:
    async with stage(PROVIDER) as on:
        on.attempt.calls.grant("t1")
        on.attempt.calls.results["t1"] = ToolResult("ok", "a.txt")
        assert await on.hook("before", BEFORE) == {"decision": "deny", "why": "a.txt"}


async def test_what_a_tool_returned_is_settled() -> None:
    async with stage(PROVIDER) as on:
        on.attempt.calls.grant("t1")
        assert await on.hook("after", {"id": "t1", "name": "Bash", "output": "a.txt"}) == {}
        assert on.attempt.calls.results["t1"] == ToolResult("ok", "a.txt")


async def test_a_hook_of_another_kind_is_answered_and_changes_nothing() -> None:
    async with stage(PROVIDER) as on:
        assert await on.hook("notification", {}) == {}


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"id":1}', b"\xff", b'{"id":"\\ud800"}'])
async def test_a_hook_that_cannot_be_read_is_a_refusal(payload: bytes) -> None:
    async with stage(PROVIDER) as on:
        on.attempt.calls.grant("t1")
        answer = await on.hook("before", payload)
        assert denied(answer)
        assert answer["continue"] is False


async def test_a_token_that_opens_nothing_is_a_refusal_with_status_200() -> None:
    async with stage(PROVIDER) as on:
        on.attempt.calls.grant("t1")
        assert denied(await on.hook("before", BEFORE, token="guessed"))
        async with on.gateway.admit(MemoryAttempt(), PlainDialogue()) as door:
            pass
        assert denied(await on.hook("before", BEFORE, token=door.token))
        assert not on.attempt.calls.started


@pytest.mark.parametrize("over", [AttemptLost("fenced"), TurnStopped("cancelled")])
async def test_a_lost_attempt_lets_no_tool_run(over: BaseException) -> None:
    async with stage(PROVIDER) as on:
        on.attempt.calls.grant("t1")
        on.attempt.calls.lost = over
        assert denied(await on.hook("before", BEFORE))
        on.attempt.calls.lost = None
        assert denied(await on.hook("before", BEFORE))
        assert not on.attempt.calls.started


class FailingCalls(MemoryCalls):
    async def start_tool(self, harness_id: str, name: str, arguments: Any, *, cwd: str = "") -> Let:
        raise OSError(harness_id)


async def test_an_error_while_asking_the_log_is_a_refusal() -> None:
    attempt = MemoryAttempt()
    attempt.calls = FailingCalls(attempt.gate, attempt.steers, {})
    async with stage(PROVIDER, attempt=attempt) as on:
        assert denied(await on.hook("before", BEFORE))


class UnrecordedDialogue(PlainDialogue):
    async def recorded(self, *, tool: bool = False) -> None:
        raise OSError("the mirror is behind")


async def test_a_tool_waits_until_what_the_harness_wrote_is_recorded() -> None:
    dialogue = PlainDialogue()
    async with stage(PROVIDER, dialogue=dialogue) as on:
        on.attempt.calls.grant("t1")
        assert await on.hook("before", BEFORE) == {"decision": "allow"}
        assert dialogue.looked == 1
    async with stage(PROVIDER, dialogue=UnrecordedDialogue()) as on:
        on.attempt.calls.grant("t1")
        assert denied(await on.hook("before", BEFORE))
        assert not on.attempt.calls.started


class SlowCalls(MemoryCalls):
    async def start_tool(self, harness_id: str, name: str, arguments: Any, *, cwd: str = "") -> Let:
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_log_that_does_not_answer_in_time_is_a_refusal() -> None:
    attempt = MemoryAttempt()
    attempt.calls = SlowCalls(attempt.gate, attempt.steers, {})
    async with stage(PROVIDER, attempt=attempt, limits=Limits(hook_s=0.05)) as on:
        assert denied(await on.hook("before", BEFORE))


class UnsettledCalls(MemoryCalls):
    async def settle_tool(self, harness_id: str, result: ToolResult) -> None:
        await anyio.sleep_forever()


class SettlingDialogue(PlainDialogue):
    def hook_answer(self, ask: HookAsk, verdict: object) -> dict[str, Any]:
        return {"settled": ask.harness_id}


async def test_a_result_that_is_not_written_down_in_time_is_not_said_to_be() -> None:
    attempt = MemoryAttempt()
    attempt.calls = UnsettledCalls(attempt.gate, attempt.steers, {})
    async with stage(
        PROVIDER, attempt=attempt, dialogue=SettlingDialogue(), limits=Limits(hook_s=0.05)
    ) as on:
        answer = await on.hook("after", {"id": "t1", "name": "Bash", "output": "a.txt"})
        assert "settled" not in answer
        assert answer["continue"] is False


class ConfusedDialogue(PlainDialogue):
    def hook_answer(self, ask: HookAsk, verdict: object) -> dict[str, Any]:
        raise KeyError(ask.event)


async def test_a_dialogue_that_fails_to_answer_is_a_refusal() -> None:
    async with stage(PROVIDER, dialogue=ConfusedDialogue()) as on:
        on.attempt.calls.grant("t1")
        assert denied(await on.hook("before", BEFORE))


class Crash(BaseException):
    pass


class CrashingCalls(MemoryCalls):
    async def start_tool(self, harness_id: str, name: str, arguments: Any, *, cwd: str = "") -> Let:
        await self._gate.cross(Point.BEFORE_START)
        raise Crash


async def test_a_worker_that_dies_in_a_hook_answers_nothing() -> None:
    attempt = MemoryAttempt()
    attempt.calls = CrashingCalls(attempt.gate, attempt.steers, {})
    with pytest.raises(Crash):
        await _ask_and_wait(attempt)


async def _ask_and_wait(attempt: MemoryAttempt) -> None:
    async with stage(PROVIDER, attempt=attempt) as on:
        with pytest.raises(httpx.HTTPError):
            await on.hook("before", BEFORE)
        await anyio.sleep_forever()


async def test_too_many_hooks_at_a_time_are_refusals() -> None:
    async with stage(PROVIDER, limits=Limits(requests=0)) as on:
        on.attempt.calls.grant("t1")
        assert denied(await on.hook("before", BEFORE))


async def test_a_hook_over_the_limit_is_a_refusal() -> None:
    async with stage(PROVIDER, limits=Limits(request_bytes=10)) as on:
        on.attempt.calls.grant("t1")
        assert denied(await on.hook("before", BEFORE))
