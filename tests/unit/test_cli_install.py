"""Harnesses are installed whole, checked and from locks that name no host; npm is a script of the tests."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from outlast import programs
from outlast.errors import HarnessMissing, NotFound

NPM = """#!{python}
import json, os, pathlib, sys
if sys.argv[1:] == ["--version"]:
    print("11.0.0")
    raise SystemExit
with open(os.environ["RUNS"], "a") as runs:
    print(*sys.argv[1:], file=runs)
if os.environ.get("FAILS"):
    print("npm error code E401: who are you?")
    raise SystemExit(1)
lock = json.loads(pathlib.Path("package-lock.json").read_text())
for place, entry in lock["packages"].items():
    if place and place.removeprefix("node_modules/") != os.environ.get("LEFT_OUT"):
        pathlib.Path(place).mkdir(parents=True, exist_ok=True)
        version = entry["version"] + os.environ.get("OTHERWISE", "")
        pathlib.Path(place, "package.json").write_text(json.dumps({{"version": version}}))
"""
NODE = "#!/bin/sh\necho ${NODE_VERSION:-v24.1.0}\n"


class Shelf:
    """A directory for harnesses of its own, an npm that counts its runs, and a Node.js."""

    def __init__(self, directory: Path) -> None:
        self.runs = directory / "runs"
        self.harnesses = directory / "harnesses"
        programs_of_machine = directory / "bin"
        programs_of_machine.mkdir()
        for name, text in (("npm", NPM.format(python=sys.executable)), ("node", NODE)):
            (programs_of_machine / name).write_text(text)
            (programs_of_machine / name).chmod(0o755)
        self.environ = {
            "PATH": f"{programs_of_machine}:/usr/bin:/bin",
            "HOME": str(directory),
            "OUTLAST_DATA_DIR": str(directory / "data"),
            "OUTLAST_HARNESS_DIR": str(self.harnesses),
            "RUNS": str(self.runs),
        }

    def start(self, *words: str, **environ: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "outlast.cli", "install", *words],
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def install(self, *words: str, status: int = 0, **environ: str) -> str:
        """What is said on both outputs."""
        process = self.start(*words, **environ)
        out, err = process.communicate(timeout=30)
        assert process.returncode == status, out + err
        return out + err

    def listed(self) -> Mapping[str, str]:
        lines = map(json.loads, self.install("--json").splitlines())
        return {line["harness"]: line["state"] for line in lines}

    def there(self) -> list[str]:
        return [path.name for path in self.harnesses.iterdir() if not path.name.startswith(".")]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@pytest.mark.crash
def test_a_harness_is_installed_once_without_running_what_is_installed(shelf: Shelf) -> None:
    shelf.install("codex")
    shelf.install("codex")
    (run,) = shelf.runs.read_text().splitlines()
    assert run.startswith("ci --ignore-scripts --omit=dev")
    assert shelf.listed()["codex"] == "installed"


@pytest.mark.crash
def test_of_two_that_install_the_same_one_does_it(shelf: Shelf) -> None:
    both = [shelf.start("pi", "codex") for _ in range(2)]
    for process in both:
        said = process.communicate(timeout=30)
        assert process.returncode == 0, said
    assert len(shelf.runs.read_text().splitlines()) == 2
    assert len(shelf.there()) == 2


@pytest.mark.crash
@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"FAILS": "yes"}, "npm error code E401: who are you?"),
        ({"OTHERWISE": "-old"}, "did not give what its lock names: @openai/codex@0.171.0"),
    ],
    ids=["npm fails", "another version"],
)
def test_what_is_not_as_the_lock_says_is_not_installed(
    shelf: Shelf, environ: Mapping[str, str], said: str
) -> None:
    assert said in shelf.install("codex", status=4, **environ)
    assert shelf.there() == []
    shelf.install("codex")


@pytest.mark.crash
@pytest.mark.skipif(
    os.uname().machine != "x86_64" or sys.platform != "linux", reason="its package is named here"
)
def test_the_package_of_this_platform_must_be_there(shelf: Shelf) -> None:
    said = shelf.install("codex", status=4, LEFT_OUT="@openai/codex-linux-x64")
    assert "@openai/codex-linux-x64@0.171.0-linux-x64" in said


@pytest.mark.parametrize(
    ("entry", "there", "missing"),
    [
        ({"optional": True}, None, []),
        ({"optional": True}, "1.0.0", ["one@2.0.0"]),
        ({"optional": True, "os": ["linux", "darwin"]}, None, ["one@2.0.0"]),
        ({"optional": True, "cpu": ["wasm32"]}, None, []),
        ({"peer": True}, None, []),
        ({}, None, ["one@2.0.0"]),
    ],
)
def test_only_what_another_machine_needs_may_be_away_and_nothing_in_another_version(
    tmp_path: Path, entry: Mapping[str, object], there: str | None, missing: list[str]
) -> None:
    lock = {"packages": {"": {}, "node_modules/one": {"version": "2.0.0", **entry}}}
    (tmp_path / "package-lock.json").write_text(json.dumps(lock))
    if there is not None:
        (tmp_path / "node_modules/one").mkdir(parents=True)
        (tmp_path / "node_modules/one/package.json").write_text(json.dumps({"version": there}))
    found = programs.missing_packages(tmp_path, programs.Lock("one", tmp_path))
    assert found == missing


@pytest.mark.crash
def test_nothing_of_a_wheel_is_built_or_run_to_install_it(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    uv = tmp_path / "bin/uv"
    uv.write_text('#!/bin/sh\necho "$@" >> "$RUNS"\n')
    uv.chmod(0o755)
    shelf.environ["UV"] = str(uv)
    shelf.start("pi", NODE_VERSION="v10.0.0").communicate(
        timeout=30
    )  # the Node.js that comes along is a wheel
    assert "--no-deps --only-binary :all: --require-hashes" in shelf.runs.read_text()


@pytest.mark.crash
def test_none_of_several_is_installed_when_one_is_misspelt(shelf: Shelf) -> None:
    assert "installs no 'codec'" in shelf.install("codex", "codec", status=3)
    assert not shelf.runs.exists()


@pytest.mark.crash
def test_what_is_removed_is_gone_in_every_version(shelf: Shelf) -> None:
    shelf.install("pi", "codex")
    shelf.install("--remove", "pi")
    assert [name.partition("-")[0] for name in shelf.there()] == ["codex"]
    assert shelf.listed()["pi"] == "missing"


@pytest.mark.crash
def test_what_somebody_left_who_was_killed_is_cleared_away(shelf: Shelf) -> None:
    left = shelf.harnesses / ".codex-old-1234"
    (left / "new").mkdir(parents=True)
    shelf.install("codex")
    assert not left.exists()


def test_the_error_of_a_missing_harness_is_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HARNESS_DIR", str(tmp_path))
    with pytest.raises(HarnessMissing, match=f"OUTLAST_HARNESS_DIR={tmp_path} outlast install opencode"):
        programs.find("opencode")
    with pytest.raises(NotFound, match="claude-code, codex"):
        programs.find("nothing")


def test_a_node_that_is_too_old_does_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(tmp_path)
    for name, value in shelf.environ.items():
        monkeypatch.setenv(name, value)
    assert programs.node("22.19") == tmp_path / "bin/node"
    monkeypatch.setenv("NODE_VERSION", "v22.18.7")
    with pytest.raises(HarnessMissing, match=r"Node\.js 22\.19 or newer.*outlast install node"):
        programs.node("22.19")


@pytest.mark.parametrize("name", [*programs.names(), programs.NODE])
def test_a_lock_pins_exactly_and_names_no_host(name: str) -> None:
    lock = programs.lock_of(name)
    for file in lock.files:
        assert "://" not in file.read_text()
    assert all(version[0].isdigit() for version in lock.packages.values())
    if not lock.by_npm:
        assert "--hash=sha256:" in lock.files[0].read_text()
