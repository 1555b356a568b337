"""What `outlast doctor` says of harnesses and of an application's agents; the programs are made up."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from outlast import programs
from outlast.cli.harnesses import Finding, agent_findings, harness_findings

AGENTS = """
import sys
from outlast import Agent
from outlast.adapters.acp import Acp, ModelDoor

through = Agent("through", Acp([sys.executable], name="mine", version="7", model=ModelDoor("anthropic")))
past = Agent("past", Acp([sys.executable], name="mine"))
gone = Agent("gone", Acp(["no-such-agent", "acp"], name="mine"))
none = "no agent"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is installed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("OUTLAST_HARNESS_DIR", str(tmp_path / "harnesses"))
    return tmp_path


def put_codex(version: str) -> Path:
    """Codex where `outlast install` puts it, saying that it is of this version."""
    place = programs.place_of("codex")
    vendor = place / "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl"
    (vendor / "bin").mkdir(parents=True)
    (vendor / "bin/codex").touch()
    (vendor / "codex-package.json").write_text(json.dumps({"version": version}))
    return place


def found() -> Mapping[str, Finding]:
    return {finding.what: finding for finding in harness_findings()}


@pytest.mark.usefixtures("machine")
def test_a_harness_that_is_installed_is_told_with_its_version_and_place() -> None:
    version = programs.lock_of("codex").version
    place = put_codex(version)
    codex = found()["codex"]
    assert (codex.state, codex.hint) == ("ok", "")
    assert f"{version}, tested, in {place}" in codex.detail


@pytest.mark.usefixtures("machine")
def test_a_harness_that_is_missing_is_told_with_the_command_that_installs_it() -> None:
    codex = found()["codex"]
    assert (codex.state, codex.detail) == ("absent", "not installed")
    assert "outlast install codex" in codex.hint


@pytest.mark.usefixtures("machine")
def test_a_version_that_was_not_tested_is_warned_about() -> None:
    put_codex("999.0.0")
    codex = found()["codex"]
    assert codex.state == "warning"
    assert "999.0.0" in codex.detail
    assert "Codex 999.0.0 has not been tested with outlast" in codex.hint


def test_node_is_missed_only_where_a_harness_that_is_installed_runs_on_it(machine: Path) -> None:
    assert found()["node"].detail == "no harness that is installed runs on Node.js"
    programs.place_of("pi").mkdir(parents=True)
    node = found()["node"]
    assert (node.state, node.detail.split(" (")[0]) == ("warning", "too old or not here, for pi")
    assert "outlast install node" in node.hint
    here = machine / "bin/node"
    here.write_text("#!/bin/sh\necho v99.0.0\n")
    here.chmod(0o755)
    assert found()["node"].state == "ok"


def test_an_agent_of_an_application_is_told_with_how_durable_it_is(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "office_of_agents.py").write_text(AGENTS)
    monkeypatch.chdir(machine)
    monkeypatch.setattr(sys, "path", [str(machine), *sys.path])
    names = [f"office_of_agents:{name}" for name in ("through", "past", "gone", "none")]
    through, past, gone, none = agent_findings(names)
    assert [one.what for one in (through, past, gone, none)] == names
    assert (through.state, through.hint) == ("ok", "")
    assert through.detail.startswith("mine 7, ")
    assert through.detail.endswith("durable by call")
    assert past.state == "warning"
    assert past.detail.endswith("durable by turn")
    assert "not call by call" in past.hint
    assert (gone.state, none.state) == ("missing", "missing")
    assert "put 'no-such-agent' on the worker's PATH" in gone.hint
    assert "not an outlast.Agent" in none.hint


def test_whatever_could_ask_no_model_here_is_told_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "agents_without_a_model.py").write_text(AGENTS)
    monkeypatch.chdir(machine)
    monkeypatch.setattr(sys, "path", [str(machine), *sys.path])
    put_codex(programs.lock_of("codex").version)
    harnesses = {one.what: one for one in harness_findings(lambda adapter: f"Set {adapter.name}'s key.")}
    assert (harnesses["codex"].state, harnesses["codex"].hint) == ("warning", "Set codex's key.")
    assert harnesses["pi"].state == "absent"
    (through,) = agent_findings(["agents_without_a_model:through"], lambda _: "Set the key.")
    assert (through.state, through.hint) == ("missing", "Set the key.")
    assert through.detail.endswith("but it has no model")
