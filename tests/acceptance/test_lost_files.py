"""Real harnesses whose sandbox is lost in the middle of a turn, with files that are not written down with each call."""

from pathlib import Path

import msgspec
import pytest

from outlast.gate import Point
from outlast.records import FilesLost
from outlast.testing.adapter_contract import staged
from outlast.testing.adapter_contract.promises import moved_prefixes
from outlast.testing.adapter_contract.stage import prompt, says
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse
from outlast.workspaces.sandbox import sandbox
from tests.harnesses import claude_code, pi

SUBJECTS = {"claude-code": claude_code.SUBJECT, "pi": pi.SUBJECT}
GONE = "in it is not there any more"


def there(use: ToolUse | None) -> ToolUse:
    assert use is not None
    return use


# Short names: the paths of sockets are below the directory of the test.
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("pi", marks=pytest.mark.harness(harness="pi")),
        pytest.param("claude-code", marks=(pytest.mark.harness(harness="claude-code"), pytest.mark.full)),
    ],
)
async def test_lost(name: str, tmp_path: Path) -> None:
    """The model is told which calls' changes are gone, before it is asked anything new, and once."""
    subject = SUBJECTS[name]
    path = "/workspace/hello.py" if name == "claude-code" else "hello.py"
    script = {
        "go": [
            Step(text="I write.", tools=(there(subject.write(path, "x = 1\n")),)),
            Step(text="I make.", tools=(there(subject.shell("echo 1 > made")),)),
            Step(text="I look.", tools=(there(subject.shell("cat hello.py made; true")),)),
            Step(text="I look again.", tools=(there(subject.shell("ls; true")),)),
            *says("All is told."),
        ]
    }
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=0, checkpoint="turn")
        turn = await stage.send(prompt("go"))
        # Its sandbox dies with each worker: the first behind two calls, the second once the loss is in the log.
        await stage.killed_at(Spot(Point.BEFORE_INTENT, "model", 3), Spot(Point.AFTER_OUTCOME, "model"))
        assert str(await stage.finish(turn)) == "All is told."
        (loss,) = await stage.of_kind(FilesLost)
        assert [(one.turn, one.touched.paths) for one in loss.calls] == [(1, (path,)), (1, ())]
        bodies = [stage.models.find_body(one.n) or b"" for one in stage.requests("go")]
        told = [body.count(GONE.encode()) for body in bodies]
        assert told == [0, 0, 1, 1, 1], "said once, in the first request after it, and in each that follows"
        text = msgspec.json.encode(loss.text).decode()[1:-1]
        assert all(text in body.decode() for body in bodies[2:])
        assert "No such file" in bodies[3].decode()
        await stage.kept(lost_answers=1)
        moved = list(moved_prefixes(await stage.evidence()))
        assert not moved, "\n".join(moved)
        kinds = [event.kind async for event in turn.follow()]
        assert kinds.count("files.lost") == 1
