import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from outlast import errors
from outlast.cli.agents import all_agents, built_in
from outlast.cli.exits import Exit, exit_of, guarded, outcome_code
from outlast.cli.lazy import load_all
from outlast.cli.machine import machine_id
from outlast.cli.main import main
from outlast.errors import BadInput, HarnessError, HarnessMissing, OutlastError, WorldUnavailable
from outlast.plugins import brought

HEAVY = {"mcp", "uvicorn", "starlette", "tree_sitter", "httpx", "rich", "outlast.worker", "outlast.gateway"}


def _commands() -> Iterator[click.Command]:
    yield from load_all(main)


@pytest.mark.parametrize("command", list(_commands()), ids=lambda command: str(command.name))
def test_every_command_says_what_it_does_and_what_each_option_means(command: click.Command) -> None:
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.name
    shown = CliRunner().invoke(main, [str(command.name), "--help"])
    assert shown.exit_code == 0
    assert "--help" in shown.output


def test_a_promised_command_has_the_name_of_the_one_that_is_loaded() -> None:
    assert [command.name for command in _commands()] == list(main.commands)


@pytest.mark.crash
@pytest.mark.parametrize("words", [["--help"], ["ls"], ["show", "nothing"]], ids=lambda words: words[0])
def test_help_and_looking_load_nothing_that_a_worker_needs(words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "outlast.cli", *words],
        env={"OUTLAST_DATA_DIR": str(tmp_path), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "outlast.cli.main" in imported
    assert not imported & HEAVY


def test_an_unknown_command_is_a_usage_error_that_names_its_likes() -> None:
    result = CliRunner().invoke(main, ["follows"])
    assert result.exit_code == Exit.USAGE
    assert "follow" in result.stderr


def test_commands_are_completed_with_what_they_do() -> None:
    done = CliRunner().invoke(
        main,
        prog_name="outlast",
        env={"_OUTLAST_COMPLETE": "zsh_complete", "COMP_WORDS": "outlast fo", "COMP_CWORD": "1"},
    )
    assert done.output.split("\n")[:3] == [
        "plain",
        "follow",
        "Watch a session: what happened, then what comes.",
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.BadSessionId(session="A"), 2),
        (errors.InputConflict(input="i", session="s"), 2),
        (errors.SessionUnknown(session="s", world="w"), 3),
        (errors.TurnUnknown(session="s", turn=1), 3),
        (errors.WorldForeign(world="w", reason="r"), 4),
        (errors.HarnessMissing(harness="h", install="i"), 4),
        (errors.FormatTooNew(session="s", found=2, known=1), 4),
        (errors.SessionErased(session="s"), 5),
        (errors.LogBroken(session="s", seq=1, reason="r"), 1),
    ],
)
def test_an_exit_status_tells_what_kind_of_error_it_was(error: OutlastError, status: int) -> None:
    assert exit_of(error) == status


@pytest.mark.parametrize(
    ("status", "code"), [("done", 0), ("failed", 1), ("cancelled", 6), ("stuck", 7), ("diverged", 7)]
)
def test_the_exit_status_of_a_watched_turn_tells_how_it_ended(status: str, code: int) -> None:
    assert outcome_code(status) == code


def test_an_error_out_of_a_task_group_is_told_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> int:
        inner = ExceptionGroup("", [ValueError("noise"), BadInput(detail="That is wrong.")])
        raise ExceptionGroup("", [inner])

    with pytest.raises(SystemExit) as ended:
        guarded(body, json=True)
    assert ended.value.code == Exit.USAGE
    said = capsys.readouterr()
    assert said.err == "outlast: That is wrong.\n"
    assert said.out == '{"error":"BadInput","message":"That is wrong.","exit":2}\n'


def test_an_unforeseen_error_is_not_hidden() -> None:
    def body() -> int:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        guarded(body, json=False)


def test_no_color_is_respected_by_errors() -> None:
    def told(**environ: str) -> str:
        return CliRunner().invoke(main, ["ls", "--world", "foo:x"], env=environ, color=True).stderr

    assert "\x1b[" in told(NO_COLOR="")
    assert "\x1b[" not in told(NO_COLOR="1")


def test_the_id_of_a_machine_stays_and_is_the_same_for_all(tmp_path: Path) -> None:
    found = {machine_id(tmp_path / "data") for _ in range(3)}
    assert len(found) == 1
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["machine-id"]


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldUnavailable, match="The data directory"):
        machine_id(tmp_path / "file" / "data")


def _distribution(at: Path, name: str, module: str) -> None:
    """A third party's package with an adapter of its own."""
    (at / f"{name}.py").write_text(module)
    info = at / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[outlast.adapters]\n{name} = {name}:Adapter\n")


@pytest.fixture
def third_parties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_a_broken_adapter_of_a_third_party_takes_no_other_along(
    third_parties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _distribution(third_parties, "brokenparty", "raise RuntimeError('no such luck')")
    with pytest.raises(HarnessError, match="no such luck"):
        built_in("brokenparty")
    agents = all_agents(())
    assert "brokenparty" not in agents
    assert "scripted" in agents
    assert "not offered: brokenparty" in capsys.readouterr().err


def test_an_adapter_whose_packages_are_missing_is_not_offered_and_says_how_to_get_it(
    third_parties: Path,
) -> None:
    _distribution(third_parties, "leanparty", "import a_package_that_nobody_has")
    with pytest.raises(HarnessMissing, match=r"outlast\[leanparty\].*a_package_that_nobody_has"):
        built_in("leanparty")
    assert "leanparty" not in all_agents(())


def test_what_packages_bring_is_read_once_and_anew_where_python_looks_elsewhere(third_parties: Path) -> None:
    first = brought("outlast.adapters")
    assert brought("outlast.adapters") is first
    (third_parties / "more").mkdir()
    sys.path.append(str(third_parties / "more"))
    _distribution(third_parties / "more", "latecomer", "")
    assert "latecomer" in brought("outlast.adapters").names
