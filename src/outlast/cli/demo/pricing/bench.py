"""What one run works with: its repository, its clone, its `gh`, and the environment of its programs."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast.cli.demo.pricing.forge import Forge, Repository
from outlast.cli.demo.pricing.shop import FILES


@dataclass(frozen=True, slots=True)
class Bench:
    """The place of one run."""

    name: str
    directory: Path
    repository: Repository
    environ: Mapping[str, str]
    """Of everything that runs in it."""

    @property
    def shop(self) -> Path:
        return self.directory / "shop"


def make_bench(name: str, directory: Path, forge: Forge, model: Mapping[str, str]) -> Bench:
    """A bare repository with the shop in it, a clone of it, and a forge that knows it.

    Args:
        model: the variables that say where the model is.
    """
    bare, shop, home, programs = (directory / part for part in ("origin.git", "shop", "home", "bin"))
    for made in (home, programs):
        made.mkdir(parents=True)
    environ = {
        **os.environ,
        **model,
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    _run("git", "init", "-q", "--bare", "-b", "main", str(bare), environ=environ)
    _run("git", "clone", "-q", str(bare), str(shop), environ=environ)
    for key, value in {
        "user.name": "agent",
        "user.email": "agent@example.org",
        "core.hooksPath": "/dev/null",
    }.items():
        _run("git", "-C", str(shop), "config", key, value, environ=environ)
    for file, text in FILES.items():
        (shop / file).write_text(text, encoding="utf-8")
    _run("git", "-C", str(shop), "checkout", "-qB", "main", environ=environ)
    _run("git", "-C", str(shop), "add", "-A", environ=environ)
    _run("git", "-C", str(shop), "commit", "-qm", "A shop", environ=environ)
    _run("git", "-C", str(shop), "push", "-q", "origin", "main", environ=environ)
    repository = forge.repositories[name] = Repository(bare)
    command = [sys.executable, "-I", str(Path(__file__).with_name("gh.py")), f"{forge.url}/{name}"]
    (programs / "gh").write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    (programs / "gh").chmod(0o755)
    return Bench(name, directory, repository, environ)


def _run(*argv: str, environ: Mapping[str, str]) -> None:
    subprocess.run(argv, env=environ, check=True, capture_output=True)
