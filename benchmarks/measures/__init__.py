"""The measurements, in the order in which they run."""

from typing import Final

from benchmarks.frame import Measure
from benchmarks.measures.calls import never, safe
from benchmarks.measures.claude_code_bytes import claude_code_bytes
from benchmarks.measures.conversation import conversation
from benchmarks.measures.gateway import gateway
from benchmarks.measures.idle import idle
from benchmarks.measures.imports import imports
from benchmarks.measures.kill import kill
from benchmarks.measures.kill_claude_code import kill_claude_code
from benchmarks.measures.restart import restart
from benchmarks.measures.stored import stored
from benchmarks.measures.throughput import throughput
from benchmarks.measures.watcher import watcher

ON_DISK: Final = frozenset({"sqlite"})

MEASURES: Final = (
    Measure("safe", safe),
    Measure("never", never),
    Measure("throughput", throughput),
    Measure("stored", stored, ON_DISK),
    Measure("conversation", conversation, ON_DISK),
    Measure("gateway", gateway),
    Measure("watcher", watcher, ON_DISK),
    Measure("kill", kill, ON_DISK),
    Measure("kill-claude-code", kill_claude_code, ON_DISK),
    Measure("restart", restart, ON_DISK),
    Measure("claude-code-bytes", claude_code_bytes, ON_DISK),
    Measure("idle", idle, ON_DISK),
    Measure("import", imports),
)
