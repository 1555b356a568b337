"""Claude Code by itself in a function whose time is over in the midst of the work, and a person who starts it again."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from outlast.adapters.claude_code.versions import installed
from outlast.adapters.shapes import as_object, as_objects
from outlast.cli.demo.pricing.bench import Bench
from outlast.cli.demo.pricing.bill import Run
from outlast.cli.demo.pricing.shop import GO_ON, MODEL, prompt
from outlast.cli.text import short
from outlast.errors import HarnessError

LIFE_S: Final = 120.0
"""After so long a program that does not end is given up."""
QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
}
_LINE: Final = 8 << 20


async def start_over(bench: Bench, run: Run, say: Callable[[str], None]) -> None:
    """Cut off, then started afresh with the same words."""
    await _cut_off(bench, run, say)
    _person(run, say, "starts it again, with the same words")
    await _to_its_end(bench, run, say, [prompt("restart")])


async def go_on(bench: Bench, run: Run, say: Callable[[str], None]) -> None:
    """Cut off, then continued by the program's own means."""
    await _cut_off(bench, run, say)
    _person(run, say, "tells it to go on: claude --continue")
    await _to_its_end(bench, run, say, ["--continue", prompt("continued", GO_ON)])


def _person(run: Run, say: Callable[[str], None], does: str) -> None:
    run.human_actions += 1
    say(f"☝ a person {does}")


async def _cut_off(bench: Bench, run: Run, say: Callable[[str], None]) -> None:
    """The function: until its pull request is open, and its time over."""
    process = await _started(bench, [prompt(run.name)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, process, run, say)
        if not await _landed(bench, process):
            _kill(process)
            raise HarnessError(harness="Claude Code", reason=f"it opened no pull request: {_log(bench)}")
        say("✖ the time of the function is over: SIGKILL")
        _kill(process)
        await process.wait()


async def _landed(bench: Bench, process: Process) -> bool:
    """Whether its pull request is open before it ends, or is given up."""
    landed = bench.repository.landed
    with anyio.move_on_after(LIFE_S):
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await process.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end)
            await landed.wait()
            tasks.cancel_scope.cancel()
    return landed.is_set()


def _log(bench: Bench) -> str:
    return short((bench.directory / "claude.log").read_text(encoding="utf-8", errors="replace"), 400)


async def _to_its_end(bench: Bench, run: Run, say: Callable[[str], None], words: Sequence[str]) -> None:
    process = await _started(bench, words)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, process, run, say)
        with anyio.move_on_after(LIFE_S):
            await process.wait()
        _kill(process)
        await process.wait()
    run.done = process.returncode == 0


async def _started(bench: Bench, words: Sequence[str]) -> Process:
    options = [
        "--output-format",
        "stream-json",
        "--verbose",
        "--model",
        MODEL,
        "--permission-mode",
        "acceptEdits",
    ]
    allowed = ["--allowedTools", "Bash,Read,Write,Edit"]
    with (bench.directory / "claude.log").open("ab") as log:
        return await anyio.open_process(
            [str(installed().program), "-p", *words, *options, *allowed],
            cwd=bench.shop,
            env={**bench.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )


def _kill(process: Process) -> None:
    """End it with all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _tell(process: Process, run: Run, say: Callable[[str], None]) -> None:
    """Tell what it does, as it says it in lines of JSON."""
    assert process.stdout is not None
    lines = BufferedByteReceiveStream(process.stdout)
    while True:
        try:
            line = await lines.receive_until(b"\n", _LINE)
            told = as_object(msgspec.json.decode(line))
        except msgspec.DecodeError:
            continue
        except (anyio.EndOfStream, anyio.IncompleteRead):
            break
        for text in _lines_of(told):
            say(text)
        if told.get("type") == "result":
            run.result = str(told.get("result", ""))
    await process.stdout.aclose()


def _lines_of(told: dict[str, Any]) -> Sequence[str]:
    message = as_object(told.get("message"))
    if told.get("type") != "assistant":
        return []
    return [text for block in as_objects(message.get("content")) if (text := _line_of(block))]


def _line_of(block: dict[str, Any]) -> str:
    if block.get("type") == "text":
        return f"● {short(str(block.get('text', '')))}"
    given = as_object(block.get("input"))
    about = given.get("command") or given.get("file_path") or given.get("signal") or ""
    return f"◌ {block.get('name')} {short(str(about), 44)}" if block.get("type") == "tool_use" else ""
