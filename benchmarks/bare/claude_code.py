"""Claude Code alone: the adapter's flags without mirror, hooks, MCP server and permission prompts."""

import os
from collections.abc import Mapping, Sequence

from benchmarks.bare.program import Spot, Started, Watch, over_too_early
from outlast.adapters.claude_code import launch, stream
from outlast.adapters.claude_code.versions import installed
from outlast.ids import stable_uuid
from tests.harnesses.claude_code import MODEL

OURS = {"--session-mirror": 0, "--include-hook-events": 0, "--permission-prompt-tool": 1, "--settings": 1}
"""Flags, and how many words follow each."""


class ClaudeCodeAlone:
    """`claude -p` with stream-json both ways; Bash is allowed, and text is shown as it comes."""

    def lay_out(self, spot: Spot) -> None:
        pass

    def argv(self, spot: Spot) -> Sequence[str]:
        words = iter(launch.argv(_launch(spot), resume=False))
        kept: list[str] = []
        for word in words:
            if word not in OURS:
                kept.append(word)
            for _ in range(OURS.get(word, 0)):
                next(words)
        return [*kept, "--allowedTools", "Bash", "--include-partial-messages"]

    def environment(self, spot: Spot) -> Mapping[str, str]:
        ours = launch.environment(_launch(spot), os.environ, go_on=False)
        return {**ours, "ANTHROPIC_API_KEY": "none"}

    async def take_turn(self, started: Started, spot: Spot, prompt: str, watch: Watch) -> None:
        await started.write(stream.prompt(prompt, stable_uuid("prompt", str(spot.home))))
        async for line in started.lines(watch):
            end = stream.read(line) if b'"terminal_reason"' in line else None
            if isinstance(end, stream.Finished):
                if not end.ok:
                    raise RuntimeError(f"Claude Code without outlast failed: {end.text[:500]}")
                return
        raise over_too_early("Claude Code")


def _launch(spot: Spot) -> launch.Launch:
    return launch.Launch(
        program=installed().program,
        session=stable_uuid("bare", str(spot.home)),
        home=spot.home,
        door=spot.door,
        model=MODEL,
        tools=False,
        tool_home=spot.user,
    )
