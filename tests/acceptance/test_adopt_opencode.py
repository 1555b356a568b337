"""`outlast adopt opencode` with the real program: it ran alone, was killed, and goes on as a session."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from anyio import to_thread

from outlast.adapters.opencode.adoption import adopt
from outlast.adapters.opencode.conversation import LOST
from outlast.adapters.opencode.store import database_of, roots
from outlast.adapters.opencode.versions import installed
from outlast.session import Session
from outlast.testing.adapter_contract.case import Ground
from outlast.testing.adapter_contract.shop import effect_command
from outlast.testing.adapter_contract.stage import Stage, ended, prompt, says, until
from outlast.testing.models import Step
from tests.acceptance.adopting import alone, outlast
from tests.acceptance.terminals import LIMIT_S
from tests.harnesses.opencode import MODEL, SUBJECT

ADOPT = ("adopt", "opencode")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.harness(harness="opencode"),
    pytest.mark.full,
    pytest.mark.timeout(240),
]


def users_own(stage: Stage) -> Mapping[str, str]:
    """The environment of a user who has set up OpenCode, and nothing of outlast's."""
    place = Path(os.environ["HOME"], ".config", "opencode")
    (place / "node_modules").mkdir(parents=True, exist_ok=True)
    needs = {"dependencies": {"@opencode-ai/plugin": installed().version}}
    lock = {"name": "opencode", "lockfileVersion": 3, "packages": {"": needs}}
    (place / "package.json").write_text(json.dumps(needs))
    (place / "package-lock.json").write_text(json.dumps(lock))
    provider = {"anthropic": {"options": {"baseURL": f"{stage.models.base_url}/v1", "apiKey": "none"}}}
    model = f"anthropic/{MODEL}"
    config = {"autoupdate": False, "provider": provider, "model": model, "permission": "allow"}
    (place / "opencode.json").write_text(json.dumps(config))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENCODE", "XDG_"))}
    quiet = ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH")
    # It goes by what the shell says of the directory.
    return {**kept, **{f"OPENCODE_DISABLE_{name}": "1" for name in quiet}, "PWD": str(stage.shop)}


async def test_a_conversation_that_was_killed_goes_on_as_a_session_with_its_call_in_doubt(
    tmp_path: Path,
) -> None:
    script = {
        "go": [
            Step(text="I look.", tools=(SUBJECT.shell("ls"),)),
            Step(text="I pay.", tools=(SUBJECT.shell(effect_command("s", "paid", "; sleep 600")),)),
        ],
        "on": [Step(text="I look again.", tools=(SUBJECT.shell("ls"),)), *says("It was paid once.")],
    }
    async with Ground(SUBJECT, tmp_path).staged(script) as stage:
        environ = users_own(stage)
        database = database_of(environ)
        command = [str(installed().program), "run", "--title", "A bill", prompt("go", "Pay the bill.")]
        async with alone(stage, command, environ, output=subprocess.DEVNULL) as process:
            assert process.stdin is not None
            process.stdin.close()  # what comes there would belong to the prompt
            await until(lambda: stage.effects().count("paid") == 1)
            (own,) = roots(database)
            refused = await to_thread.run_sync(lambda: outlast(stage, *ADOPT, own.id, status=2))
            assert "still has the session" in refused["message"], "a process goes on with it"
        written = database.read_bytes()
        adopted = await to_thread.run_sync(outlast, stage, *ADOPT, own.id)
        assert (adopted["adopted"], adopted["unanswered"]) == (own.id, ["bash"])
        assert adopted["cwd"] == str(stage.shop)
        again = await to_thread.run_sync(lambda: outlast(stage, *ADOPT, str(database), status=2))
        assert "already" in again["message"], "it is one session"
        assert database.read_bytes() == written, "the user's own stays as it is"
        exported = tmp_path / "export.json"
        exported.write_bytes(await to_thread.run_sync(_exported, stage, environ, own.id))
        assert _events(exported, environ) == _events(Path(own.id), environ), "an export tells the same"
        session = await Session.find(stage.world, adopted["session"])
        database.rename(tmp_path / "put-away")
        turn = await session.send(prompt("on", "Go on, please."))
        await to_thread.run_sync(outlast, stage, "work", "--once")
        assert str(await ended(turn)) == "It was paid once."
        first, last = (stage.models.find_body(one.n) or b"" for one in stage.requests("on"))
        assert str(LOST.value).encode() in first, "its last call is in doubt"
        assert b"Pay the bill." in first
        assert b"I look." in first
        assert b"I look again." in last, "and the next call ran"
        assert stage.effects().count("paid") == 1
        assert stage.steps("go") == [0, 1], "no finished call was asked for again"


def _exported(stage: Stage, environ: Mapping[str, str], session: str) -> bytes:
    command = [str(installed().program), "export", session]
    done = subprocess.run(
        command, env=environ, cwd=stage.shop, capture_output=True, timeout=LIMIT_S, check=True
    )
    return done.stdout


def _events(named: Path, environ: Mapping[str, str]) -> list[object]:
    (lines,) = adopt(named, environ).files.values()
    return [msgspec.json.decode(line) for line in lines]
