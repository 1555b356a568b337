"""The extension that Pi carries, run by Node.js in the place of Pi."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from outlast.adapters.pi.launch import EXTENSION
from tests.node import NODE

SCRIPT = """
import { createServer } from "node:http";
const [module, event, model, more] = process.argv.slice(1);
const { cwd, tools, active } = JSON.parse(more);
const bash = { name: "bash", description: "Run it.", schema: {} };
const provider = { name: "anthropic", config: {} };
const welcome = { outlast: "welcome", tools: cwd ? [bash] : [], steers: {}, provider, cwd };
const server = createServer((request, answer) => answer.end(JSON.stringify(welcome))).listen(0, "127.0.0.1");
await new Promise((go) => server.once("listening", go));
process.env.OUTLAST_HOOKS_URL = `http://127.0.0.1:${server.address().port}`;
const { default: outlast } = await import(module);
const handlers = {};
const pi = { on: (name, handler) => (handlers[name] = handler), registerProvider() {}, registerCommand() {} };
Object.assign(pi, { registerTool() {}, getActiveTools: () => active, getAllTools: () => tools });
await outlast(pi);
const sessionManager = { getLeafEntry: () => undefined };
await handlers[event]({ messages: [] }, { model: JSON.parse(model), sessionManager });
process.exit(0);
"""
NOTHING: Mapping[str, object] = {}
BEDROCK = {"provider": "amazon-bedrock", "id": "us.claude"}


@pytest.mark.parametrize("event", ["session_start", "context_with_system"])
def test_a_model_of_another_provider_is_never_asked(tmp_path: Path, event: str) -> None:
    status, said = ended(tmp_path, event, BEDROCK)
    assert status == 70
    assert "us.claude is of amazon-bedrock, and outlast asks anthropic only" in said
    assert ended(tmp_path, event, {"provider": "anthropic", "id": "claude"}) == (0, "")


@pytest.mark.parametrize(
    ("active", "source", "said"),
    [
        (["bash"], "extension", ""),
        (["bash"], "builtin", "tools of Pi's own are on: bash."),
        (["bash", "powershell"], "extension", "tools of Pi's own are on: powershell."),
    ],
)
def test_beside_the_files_no_tool_of_pi_s_own_may_be_on(
    tmp_path: Path, active: list[str], source: str, said: str
) -> None:
    more = {
        "cwd": "/workspace",
        "active": active,
        "tools": [{"name": "bash", "sourceInfo": {"source": source}}],
    }
    model = {"provider": "anthropic", "id": "claude"}
    status, told = ended(tmp_path, "context_with_system", model, more)
    assert (status, said in told) == (70 if said else 0, True)


def ended(
    directory: Path, event: str, model: object, more: Mapping[str, object] = NOTHING
) -> tuple[int, str]:
    """How Pi has ended, and what it said of that, when something happened with this model chosen."""
    for name in (EXTENSION.name, "terminal.js"):
        shutil.copyfile(EXTENSION.with_name(name), directory / name)
    (directory / "package.json").write_text('{"type": "module"}')
    script = ["--input-type=module", "-e", SCRIPT, (directory / EXTENSION.name).as_uri()]
    done = subprocess.run(
        [NODE, *script, event, json.dumps(model), json.dumps(more)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    return done.returncode, done.stderr
