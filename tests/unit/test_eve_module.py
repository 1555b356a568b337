"""The module that an agent of eve's carries, run by Node.js against answers that are no yes."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from outlast.adapters.eve.adapter import MODULE
from tests.node import NODE

SCRIPT = """
const { durable } = await import(process.argv[1]);
const [answers, contexts] = JSON.parse(process.argv[2]);
const ran = [];
for (const answer of answers) {
  globalThis.fetch = async () => ({ ok: true, json: async () => answer });
  for (const context of contexts) {
    const tool = durable({ execute: async () => ran.push([answer, context]) });
    await Promise.race([tool.execute({}, context).catch(() => {}), new Promise((go) => setTimeout(go, 50))]);
  }
}
console.log(JSON.stringify(ran));
process.exit(0);
"""
NO = [
    {"continue": False, "decision": "block", "reason": "The turn is over."},
    {},
    {"run": "", "reason": "no"},
    {"run": None},
]
CALLS = [{}, {"callId": ""}, {"callId": "c"}, {"callId": None}]


def test_a_tool_does_not_run_without_a_yes_for_its_very_call(tmp_path: Path) -> None:
    assert ran(tmp_path, NO, CALLS) == []
    yes = {"run": "c", "settled": "c"}
    assert ran(tmp_path, [yes], CALLS) == [[yes, {"callId": "c"}]]


def ran(directory: Path, answers: Sequence[object], calls: Sequence[object]) -> object:
    """The pairs of answer and call with which the tool ran."""
    module = directory / "outlast.mjs"
    shutil.copyfile(MODULE, module)
    script = ["--input-type=module", "-e", SCRIPT]
    done = subprocess.run(
        [NODE, *script, module.as_uri(), json.dumps([answers, calls])],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)
