"""`outlast acp` as an editor meets it: the official client, real processes, real kills."""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from typing import Any

import anyio
import anyio.to_thread
import pytest
from acp import schema
from acp.exceptions import RequestError

from outlast.testing.models import Script, ScriptedModels, Step, ToolUse
from tests.acceptance.counter import Counter, opened, rings, says, script
from tests.acceptance.editor import LIMIT_S, Desktop, Window, opened_editor
from tests.acceptance.office_of_editors import BELL

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180), pytest.mark.anyio]
DESK = "tests.acceptance.office_of_editors:desk"
ASKER = "tests.acceptance.office_of_editors:asker"
STORY = script(
    says("I look."),
    {"do": "tool", "name": "pay", "arguments": {"cents": 5}},
    says("Half a |sentence."),
    says("Last."),
)


@pytest.fixture
def counter() -> Generator[Counter]:
    with opened() as counter:
        counter.environ[BELL] = counter.bell.path
        yield counter


def chosen(kind: str) -> Any:
    """A user who always chooses the option of this kind."""

    def choose(options: list[schema.PermissionOption]) -> str:
        return next(option.option_id for option in options if option.kind == kind)

    return choose


async def rung(counter: Counter) -> Any:
    return await anyio.to_thread.run_sync(counter.bell.rung)


async def load(window: Window, session: str) -> schema.LoadSessionResponse:
    return await window.agent.load_session(cwd=window.cwd, session_id=session, mcp_servers=[])


async def kill(window: Window) -> None:
    window.process.kill()
    await window.process.wait()


async def test_a_turn_outlives_its_editor_and_its_worker_and_is_shown_as_if_nothing_had_happened(
    counter: Counter,
) -> None:
    calm, undisturbed = await _undisturbed(counter)
    session, asked = await _killed_while_it_asks(counter)
    await _killed_in_mid_sentence(counter, session, asked)
    third = Desktop()
    async with opened_editor(counter, DESK, desktop=third) as window:
        await load(window, session)
        (await rung(counter)).answer("go on")
        await third.until(lambda: "Last." in third.said())
        assert not third.asked
    last = Desktop()
    async with opened_editor(counter, DESK, desktop=last) as window:
        await load(window, calm)
        whole, last.updates = last.screen(), []
        await load(window, session)
    assert whole[0] == ("user_message_chunk", STORY)
    assert undisturbed == whole[1:]
    assert last.screen() == whole
    assert third.screen() == whole
    assert (counter.shop / "paid.txt").read_text() == "5\n5\n"  # once in each session


async def _undisturbed(counter: Counter) -> tuple[str, list[Any]]:
    """A session in which nothing happened, and what its editor had on its screen."""
    desktop = Desktop(chosen("allow_once"))
    async with opened_editor(counter, DESK, desktop=desktop) as window:
        session = await window.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(window.prompt, session, STORY)
            (await rung(counter)).answer("go on")
    return session, desktop.screen()


async def _killed_while_it_asks(counter: Counter) -> tuple[str, str]:
    """The session, and the call that was asked about."""
    desktop = Desktop()
    async with opened_editor(counter, DESK, desktop=desktop) as window:
        session = await window.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_sent, window, session)
            await desktop.until(lambda: desktop.asked)
            await kill(window)
    return session, desktop.asked[0].tool_call_id


async def _killed_in_mid_sentence(counter: Counter, session: str, asked: str) -> None:
    """What was asked is asked again, and answered; then editor and worker are killed while the model speaks."""
    desktop = Desktop(chosen("allow_once"))
    async with opened_editor(counter, DESK, desktop=desktop) as window:
        loaded = await load(window, session)
        assert loaded.field_meta is not None
        assert loaded.field_meta["outlast"]["open"]["turn"] == 1
        ring = await rung(counter)
        assert [one.tool_call_id for one in desktop.asked] == [asked]
        assert desktop.said() == ["I look."], "a text that may yet be retracted is not shown"
        await kill(window)
        os.kill(ring.pid, signal.SIGKILL)


async def _sent(window: Window, session: str) -> None:
    with pytest.raises(ConnectionError):
        await window.prompt(session, STORY)


async def test_who_reads_along_is_told_no_word_twice_when_the_worker_dies_in_mid_sentence(
    counter: Counter,
) -> None:
    desktop = Desktop()
    said = desktop.said
    async with (
        opened_editor(counter, DESK, "--live", desktop=desktop) as window,
        anyio.create_task_group() as tasks,
    ):
        session = await window.begin()
        tasks.start_soon(window.prompt, session, script(says("Half a |sentence."), says("Last.")))
        ring = await rung(counter)
        await desktop.until(lambda: said() == ["Half a "])
        os.kill(ring.pid, signal.SIGKILL)
        (await rung(counter)).answer("go on")
        await desktop.until(lambda: "Last." in "".join(said()))
    assert "".join(said()) == "Half a sentence.Last."


async def test_an_editor_that_goes_away_while_it_is_asked_leaves_no_complaint(counter: Counter) -> None:
    desktop = Desktop()
    async with opened_editor(counter, DESK, desktop=desktop) as window, anyio.create_task_group() as tasks:
        session = await window.begin()
        tasks.start_soon(_sent, window, session)
        await desktop.until(lambda: desktop.asked)
        window.process.stdin.close()
        assert await window.process.wait() == 0
    (head,) = counter.json("ls")
    assert head["awaits"], "it is asked about still"


async def test_what_is_denied_does_not_run(counter: Counter) -> None:
    desktop = Desktop(chosen("reject_once"))
    async with opened_editor(counter, DESK, desktop=desktop) as window:
        session = await window.begin()
        answer = await window.prompt(
            session, script({"do": "tool", "name": "pay", "arguments": {"cents": 5}})
        )
        assert answer.stop_reason == "end_turn"
    (call,) = desktop.calls().values()
    assert call["status"] == "failed"
    assert not (counter.shop / "paid.txt").exists()


async def test_a_call_in_doubt_is_asked_about_and_runs_no_second_time(counter: Counter) -> None:
    desktop = Desktop(lambda options: next(one.option_id for one in options if one.name == "It took effect"))
    async with opened_editor(counter, DESK, desktop=desktop) as window, anyio.create_task_group() as tasks:
        session = await window.begin()
        call = {"do": "tool", "name": "ship", "arguments": {"bell": counter.bell.path}}
        tasks.start_soon(window.prompt, session, script(call, says("Done.")))
        os.kill((await rung(counter)).pid, signal.SIGKILL)
        await desktop.until(lambda: "Done." in desktop.said())
    (asked,) = desktop.asked
    (shown,) = desktop.calls().values()
    assert (asked.tool_call_id, shown["status"]) == (shown["tool_call_id"], "completed")
    assert asked.content is not None
    assert "may have taken effect" in str(asked.content)


async def test_a_decision_made_elsewhere_takes_the_question_back_and_counts_once(counter: Counter) -> None:
    answers = Desktop()
    async with opened_editor(counter, DESK, desktop=answers) as window, anyio.create_task_group() as tasks:
        session = await window.begin()
        tasks.start_soon(
            window.prompt, session, script({"do": "tool", "name": "pay", "arguments": {"cents": 5}})
        )
        await answers.until(lambda: answers.asked)
        await anyio.to_thread.run_sync(lambda: counter.outlast("decide", session, "1", "--allow"))
        await answers.until(lambda: [one["status"] for one in answers.calls().values()] == ["completed"])
    assert (counter.shop / "paid.txt").read_text() == "5\n"


async def test_a_question_is_answered_by_the_next_prompt(counter: Counter) -> None:
    desktop = Desktop()
    async with opened_editor(counter, ASKER, desktop=desktop) as window:
        session = await window.begin()
        asked = await window.prompt(session, "the door")
        assert asked.stop_reason == "end_turn"
        assert asked.field_meta is not None
        assert asked.field_meta["outlast"]["waits"] == "answer"
        assert desktop.said() == ["Which colour for the door?"]
        await kill(window)
    again = Desktop()
    async with opened_editor(counter, ASKER, desktop=again) as window:
        await load(window, session)
        await again.until(lambda: "Which colour for the door?" in again.said())
        done = await window.prompt(session, "blue")
        assert done.stop_reason == "end_turn"
        assert again.said()[-1] == "the door is blue now"


async def test_a_cancelled_turn_answers_its_prompt(counter: Counter) -> None:
    async with opened_editor(counter, DESK) as window, anyio.create_task_group() as tasks:
        session = await window.begin()
        over = anyio.Event()

        async def prompt() -> None:
            answer = await window.prompt(session, script(rings(counter)))
            assert answer.stop_reason == "cancelled"
            over.set()

        tasks.start_soon(prompt)
        await rung(counter)
        await window.agent.cancel(session_id=session)
        with anyio.fail_after(LIMIT_S):
            await over.wait()
        await window.agent.close_session(session_id=session)
        with pytest.raises(RequestError, match="is not open here"):
            await window.prompt(session, "more")


async def test_sessions_are_listed_forked_and_resumed_and_a_prompt_has_a_name(counter: Counter) -> None:
    desktop = Desktop()
    async with opened_editor(counter, DESK, desktop=desktop) as window:
        session = await window.begin()
        name = {"outlast": {"id": "mine-1"}}
        first = await window.prompt(session, script(says("Once.")), **name)
        again = await window.prompt(session, script(says("Once.")), **name)
        assert first == again
        assert desktop.said() == ["Once."]
        forked = (await window.agent.fork_session(session_id=session, cwd=window.cwd)).session_id
        await window.prompt(forked, script(says("In the fork.")))
        listed = await window.agent.list_sessions(cwd=window.cwd)
        assert [one.session_id for one in listed.sessions] == [forked, session]
    resumed = Desktop()
    async with opened_editor(counter, DESK, desktop=resumed) as window:
        await window.agent.resume_session(session_id=session, cwd=window.cwd)
        await window.prompt(session, script(says("Twice.")))
        assert resumed.said() == ["Twice."]
        assert (await window.prompt(session, script(says("Once.")), **name)).field_meta == first.field_meta


async def test_a_detached_editor_leaves_the_turns_to_workers_elsewhere(counter: Counter) -> None:
    async with opened_editor(counter, DESK, "--detached") as window:
        session = await window.begin()
        with counter.started("work", DESK):
            answer = await window.prompt(session, script(says("By another.")))
        assert answer.stop_reason == "end_turn"
        assert window.desktop.said() == ["By another."]


@pytest.mark.full
@pytest.mark.harness(harness="claude-code")
async def test_claude_code_is_drawn_with_its_thoughts_commands_and_diffs(counter: Counter) -> None:
    run = ToolUse(name="Bash", input={"command": "echo hi; echo ho", "description": "Say it"})
    write = ToolUse(name="Write", input={"file_path": "a.txt", "content": "one\n"})
    steps = (
        Step(thinking="Hm.", text="I look.", tools=(run,)),
        Step(text="I write.", tools=(write,)),
        Step(text="Done."),
    )
    desktop = Desktop()
    async with ScriptedModels.serve(Script(conversations={"go": steps})) as models:
        counter.environ |= {
            "ANTHROPIC_BASE_URL": models.base_url,
            "ANTHROPIC_API_KEY": "scripted",
            "OUTLAST_HARNESS_DIR": os.environ["OUTLAST_HARNESS_DIR"],
        }
        async with opened_editor(
            counter, "claude-code", "--model", "claude-sonnet-4-5", desktop=desktop
        ) as window:
            answer = await window.prompt(await window.begin(), "Go. [script:go]")
    assert answer.stop_reason == "end_turn"
    assert (desktop.said("agent_thought_chunk"), desktop.said()) == (
        ["Hm."],
        ["I look.", "I write.", "Done."],
    )
    ran, written = desktop.calls().values()
    assert (ran["title"], ran["kind"], ran["status"]) == ("Bash echo hi; echo ho", "execute", "completed")
    assert ran["content"][0]["content"]["text"] == "```\nhi\nho\n```"
    assert (written["kind"], written["status"], written["content"][0]["type"]) == (
        "edit",
        "completed",
        "diff",
    )
    assert written["locations"][0]["path"] == f"{window.cwd}/a.txt"


def test_whatever_an_editor_writes_is_answered_and_the_next_line_is_read(counter: Counter) -> None:
    def ask(number: int, method: str, **params: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    lines = [
        "no json",
        "[1]",
        '"text"',
        "\udcff{".encode("utf-8", "surrogateescape").decode("latin-1"),
        "[" * 20_000,
        ask(1, "session/new", cwd=["a list"]),
        ask(2, "session/dance"),
        ask(3, "session/new", cwd="relative", mcpServers=[]),
        ask(4, "session/prompt", sessionId="nobody", prompt=[]),
        ask(5, "session/load", sessionId="nobody", cwd="/", mcpServers=[]),
        ask(6, "session/load", sessionId="../../etc", cwd="/", mcpServers=[]),
        ask(7, "session/list", cursor="forged"),
        ask(8, "initialize", protocolVersion=99),
    ]
    process = subprocess.Popen(
        counter.argv("acp", DESK),
        env=counter.environ,
        cwd=counter.shop,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in lines]
        process.stdin.close()
        assert process.wait(60) == 0
    by_id = {one["id"]: one for one in answers if one["id"] is not None}
    refused = [one["error"]["code"] for one in answers if one["id"] is None]
    assert sorted(refused) == [-32700, -32700, -32700, -32600, -32600]
    codes = {number: one["error"]["code"] for number, one in by_id.items() if "error" in one}
    assert codes == {1: -32602, 2: -32601, 3: -32602, 4: -32002, 5: -32002, 6: -32602, 7: -32602}
    assert "absolute path" in by_id[3]["error"]["message"]
    assert by_id[8]["result"]["protocolVersion"] == 1


def test_who_starts_it_at_no_editor_is_told(counter: Counter) -> None:
    told = counter.outlast("acp", DESK, status=2, given=None)
    assert "an editor" in told.stderr
    assert "There is no agent 'nobody'" in counter.outlast("acp", "nobody", status=3).stderr
