"""Programs without us: each as its adapter starts it, led to the scripted model itself, less what is ours."""

from collections.abc import Mapping
from typing import Final

from benchmarks.bare.claude_code import ClaudeCodeAlone
from benchmarks.bare.codex import CodexAlone
from benchmarks.bare.opencode import OpenCodeAlone
from benchmarks.bare.pi import PiAlone
from benchmarks.bare.program import Alone, Spot, Watch, run_alone

ALONE: Final[Mapping[str, Alone]] = {
    "claude-code": ClaudeCodeAlone(),
    "codex": CodexAlone(),
    "opencode": OpenCodeAlone(),
    "pi": PiAlone(),
}

__all__ = ["ALONE", "Alone", "Spot", "Watch", "run_alone"]
