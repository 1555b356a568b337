"""What the frameworks under the contract have in common: they run in the worker, and have no process of their own."""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import httpx2

from outlast.adapters.foreign import this_call
from outlast.testing.adapter_contract.edit_cases import EDITS
from outlast.testing.adapter_contract.shop import Effects

_NO_HOOK: Final = "It runs in the worker: there is no hook that could fail."
_NO_PROCESS: Final = "It runs in the worker: there is no program of its own to kill or to upgrade."
_NO_SILENCE: Final = "It runs in the worker: there is no program that could fall silent."
_NO_COMPACTION: Final = "It compacts nothing of its own accord: what sums a history up is the agent's code."
_NO_EDITS: Final = "Its tools are the agent's code, which says itself how to ask about them."
LACKS: Final[Mapping[str, str]] = {
    "a_hook_that_fails_blocks_the_tool": _NO_HOOK,
    "a_hook_that_is_gone_blocks_the_tool": _NO_HOOK,
    "a_hook_that_answers_nonsense_blocks_the_tool": _NO_HOOK,
    "a_hook_that_breaks_off_blocks_the_tool": _NO_HOOK,
    "a_hook_that_hangs_holds_the_tool_back_until_the_turn_is_cancelled": _NO_HOOK,
    "a_harness_killed_alone_is_started_again_and_repeats_nothing": _NO_PROCESS,
    "a_harness_that_falls_silent_is_started_again_and_repeats_nothing": _NO_SILENCE,
    "a_harness_upgraded_in_between_is_warned_about_and_repeats_nothing": _NO_PROCESS,
    "a_compaction_by_the_harness_is_no_divergence": _NO_COMPACTION,
    "a_compaction_killed_when_it_is_asked_for_is_carried_on": _NO_COMPACTION,
    "a_compaction_killed_before_it_is_delivered_is_carried_on": _NO_COMPACTION,
    "a_turn_killed_right_after_its_compaction_is_carried_on": _NO_COMPACTION,
    "a_turn_killed_in_a_tool_after_its_compaction_is_carried_on": _NO_COMPACTION,
    **dict.fromkeys(EDITS, _NO_EDITS),
}


def unpooled() -> httpx2.AsyncClient:
    """A client that keeps no connection: nothing of it is left when the event loop of its worker ends."""
    return httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=0))


async def run_shell(command: str) -> str:
    """Run a command of the shell in the session's directory."""
    shell = await anyio.open_process(
        ["sh", "-c", command], cwd=_place(), stderr=subprocess.STDOUT, start_new_session=True
    )
    assert shell.stdout is not None
    try:
        said = b"".join([piece async for piece in shell.stdout])
        await shell.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await shell.aclose()
    return said.decode()


async def write_file(path: str, text: str) -> str:
    """Make a file in the session's directory."""
    await anyio.Path(_place() / path).write_text(text)
    return f"wrote {path}"


def _place() -> Path:
    """Where the contract has its sessions work: beside the directory of the effects."""
    return Effects.of(this_call().session).file.parent.parent / "shop"
