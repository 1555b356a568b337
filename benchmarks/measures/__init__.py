"""The measurements, in the order in which they run."""

from typing import Final

from benchmarks.frame import Measure
from benchmarks.measures.calls import never, safe
from benchmarks.measures.conversation import conversation
from benchmarks.measures.distant import distant
from benchmarks.measures.drive import drive
from benchmarks.measures.egress import egress
from benchmarks.measures.gateway import gateway
from benchmarks.measures.harness_bytes import harness_bytes
from benchmarks.measures.harness_first_token import harness_first_token
from benchmarks.measures.harness_memory import harness_memory
from benchmarks.measures.harness_resume import harness_resume
from benchmarks.measures.harness_turn import harness_turn
from benchmarks.measures.idle import idle
from benchmarks.measures.imports import imports
from benchmarks.measures.kill import kill
from benchmarks.measures.kill_claude_code import kill_claude_code
from benchmarks.measures.kill_elsewhere import kill_elsewhere
from benchmarks.measures.page import page
from benchmarks.measures.peers import peers
from benchmarks.measures.replay import replay, replay_many
from benchmarks.measures.restart import restart
from benchmarks.measures.sandbox import sandbox
from benchmarks.measures.scaling import scaling
from benchmarks.measures.served import served, served_crowd, served_return
from benchmarks.measures.stored import stored
from benchmarks.measures.throughput import throughput
from benchmarks.measures.virtual import virtual_exec
from benchmarks.measures.wal import wal
from benchmarks.measures.watcher import watcher

ON_DISK: Final = frozenset({"sqlite"})
KEPT: Final = frozenset({"sqlite", "postgres"})
SERVED: Final = frozenset({"postgres"})
EVERY: Final = frozenset({"sqlite", "postgres", "memory"})

MEASURES: Final = (
    Measure("safe", safe, EVERY),
    Measure("never", never, EVERY),
    Measure("peers", peers, SERVED),
    Measure("throughput", throughput, EVERY),
    Measure("scaling", scaling, SERVED),
    Measure("stored", stored, KEPT),
    Measure("wal", wal, SERVED),
    Measure("conversation", conversation, KEPT),
    Measure("gateway", gateway),
    Measure("egress", egress, ON_DISK),
    Measure("watcher", watcher, KEPT),
    Measure("served", served, KEPT),
    Measure("served-crowd", served_crowd, KEPT),
    Measure("served-return", served_return, KEPT),
    Measure("kill", kill, KEPT),
    Measure("kill-claude-code", kill_claude_code, ON_DISK),
    Measure("kill-elsewhere", kill_elsewhere, SERVED),
    Measure("restart", restart, KEPT),
    Measure("replay", replay, KEPT),
    Measure("replay-many", replay_many, KEPT),
    Measure("page", page, ON_DISK),
    Measure("idle", idle, KEPT),
    Measure("import", imports),
    Measure("drive", drive),
    Measure("distant", distant),
    Measure("sandbox", sandbox, ON_DISK),
    Measure("virtual", virtual_exec, ON_DISK),
    Measure("harness-first-token", harness_first_token, ON_DISK, per_harness=True),
    Measure("harness-turn", harness_turn, ON_DISK, per_harness=True),
    Measure("harness-resume", harness_resume, ON_DISK, per_harness=True),
    Measure("harness-memory", harness_memory, ON_DISK, per_harness=True),
    Measure("harness-bytes", harness_bytes, ON_DISK, per_harness=True),
)
