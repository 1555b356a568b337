"""Which workspace `outlast run` gives a new session, and what it refuses to mean."""

from pathlib import Path

import pytest

from outlast.adapter import Agent
from outlast.adapters.codex import Codex
from outlast.adapters.pi import Pi
from outlast.adapters.python import IO, Loop
from outlast.cli.workspaces import differs, place, workspace_of
from outlast.errors import BadInput
from outlast.records import SessionOpened
from outlast.workspace import Workspace
from outlast.workspaces.local import local
from outlast.workspaces.virtual import virtual


async def nothing(io: IO, prompt: str) -> object:
    return None


LOOP = Agent("tidy", Loop(nothing))
OWN = Agent("tidy", Loop(nothing), workspace=virtual())
PROGRAM = Agent("pi", Pi())
NEEDY = Agent("codex", Codex())


def opened(workspace: Workspace) -> SessionOpened:
    return SessionOpened("s", "tidy", "python", workspace=dict(workspace.reference()), cwd=workspace.cwd)


def test_what_is_said_comes_before_the_agents_own_and_that_before_here(tmp_path: Path) -> None:
    assert workspace_of(OWN, None, None, (), "m").kind == "virtual"
    assert workspace_of(OWN, None, tmp_path, (), "m").cwd == str(tmp_path)
    assert workspace_of(OWN, str(tmp_path), None, (), "m").placement == "host:m"
    assert workspace_of(PROGRAM, "virtual", None, (), "m").kind == "virtual"
    assert workspace_of(LOOP, None, None, (), "m").cwd == str(Path.cwd())
    made = workspace_of(PROGRAM, "sandbox", None, ("packages.example.com", "*.internal:8443"), "m")
    assert (made.kind, made.isolated) == ("sandbox", True)
    assert [one["host"] for one in made.reference()["network"]["allow"]] == [
        "packages.example.com",
        "*.internal",
    ]


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"Give it sandbox\(\), where it is isolated"):
        workspace_of(NEEDY, "virtual", None, (), "m")
    with pytest.raises(BadInput, match="add --workspace sandbox"):
        workspace_of(LOOP, "virtual", None, ("packages.example.com",), "m")
    with pytest.raises(BadInput, match="give one of them"):
        workspace_of(LOOP, "virtual", tmp_path, (), "m")
    with pytest.raises(BadInput, match="is no directory"):
        workspace_of(LOOP, "no-such-directory", None, (), "m")


def test_a_sandbox_may_be_of_a_provider_that_is_named(tmp_path: Path) -> None:
    made = workspace_of(PROGRAM, "sandbox:kubernetes", None, (), "m", image="registry.example/agents:3")
    assert place(opened(made)) == "sandbox (kubernetes)"
    assert made.reference()["image"] == "registry.example/agents:3"
    assert differs(opened(made), "sandbox:kubernetes") == ""
    assert differs(opened(made), "sandbox") == "its sandbox is of kubernetes, not of bubblewrap"
    assert differs(opened(made), "virtual") == "its workspace is sandbox, not virtual"
    with pytest.raises(BadInput, match=r"no provider of sandboxes called 'cubes'; there is .*kubernetes"):
        workspace_of(PROGRAM, "sandbox:cubes", None, (), "m")
    with pytest.raises(BadInput, match="add --workspace sandbox:PROVIDER"):
        workspace_of(PROGRAM, str(tmp_path), None, (), "m", image="x")


def test_a_session_of_another_workspace_is_not_taken_for_this(tmp_path: Path) -> None:
    assert differs(opened(virtual()), "virtual") == ""
    assert "its workspace is virtual, not sandbox" in differs(opened(virtual()), "sandbox")
    assert differs(opened(local(tmp_path)), str(tmp_path)) == ""
    assert f"not {tmp_path.parent}" in differs(opened(local(tmp_path)), str(tmp_path.parent))


def test_the_title_says_where_a_session_works(tmp_path: Path) -> None:
    assert place(opened(local(tmp_path))) == f"{tmp_path} (local: not isolated)"
    assert place(opened(virtual())) == "virtual files, in the log"
    assert place(opened(workspace_of(LOOP, "sandbox", None, (), "m"))) == "sandbox (bubblewrap)"
