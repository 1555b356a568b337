"""`outlast doctor`: what is here, what is tested, what is missing, and how to mend it."""

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Literal

import apsw
import click
import msgspec

from outlast.cli.agents import GROUP, built_in
from outlast.cli.exits import Exit
from outlast.cli.options import Setup, perform, shared
from outlast.cli.providers import describe
from outlast.engine.pidns import can_use_pid_namespace
from outlast.errors import OutlastError

State = Literal["ok", "warning", "missing"]
_MARK = {"ok": ("●", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    state: State
    detail: str
    hint: str = ""


@click.command()
@shared
def doctor(world: str | None, json: bool) -> None:
    """Tell what is installed, which versions are tested, what is missing and how to get it."""

    async def body(setup: Setup) -> int:
        findings = [
            _platform(),
            _python(),
            await _world(setup),
            await _pid_namespace(),
            _disk(setup),
            *_harnesses(),
        ]
        findings.append(Finding("model provider", "ok", describe(setup.settings, os.environ)))
        for finding in findings:
            if json:
                click.echo(msgspec.json.encode(finding).decode())
                continue
            mark, colour = _MARK[finding.state]
            click.echo(f"{click.style(mark, fg=colour)} {finding.what:16} {finding.detail}")
            if finding.hint:
                click.echo(f"  {'':16} {finding.hint}")
        return Exit.UNAVAILABLE if any(finding.state == "missing" for finding in findings) else Exit.OK

    perform(body, world=world, json=json)


def _platform() -> Finding:
    name = f"{platform.system()} {platform.machine()}"
    if sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"}:
        return Finding("platform", "ok", name)
    if sys.platform == "darwin":
        return Finding(
            "platform", "warning", name, "Process groups supervise here; it is not tested. Linux is."
        )
    return Finding(
        "platform", "missing", name, "Supported are Linux on x86_64 and aarch64, and macOS untested."
    )


def _python() -> Finding:
    return Finding(
        "python",
        "ok",
        f"{platform.python_version()}, outlast {_version('outlast')}, SQLite {apsw.sqlite_lib_version()}",
    )


async def _world(setup: Setup) -> Finding:
    try:
        async with setup.world() as opened:
            await opened.list(limit=1)
            return Finding("world", "ok", f"{opened.name} ({', '.join(sorted(opened.capabilities))})")
    except OutlastError as error:
        return Finding("world", "missing", setup.settings.world_url, str(error))


async def _pid_namespace() -> Finding:
    probe = await can_use_pid_namespace()
    if probe.usable:
        return Finding("pid namespace", "ok", probe.reason)
    hint = "Harnesses run under the supervisor alone. With pip install 'outlast[claude-code]' bubblewrap comes along."
    return Finding("pid namespace", "warning", probe.reason, hint)


def _disk(setup: Setup) -> Finding:
    at = setup.settings.data
    while not at.exists():
        at = at.parent
    free = shutil.disk_usage(at).free / 2**30
    state: State = "ok" if free > 1 else "warning"
    return Finding(
        "disk", state, f"{free:.1f} GiB free at {setup.settings.data}", "" if free > 1 else "Free some space."
    )


def _harnesses() -> list[Finding]:
    return [_harness(point.name) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)]


def _harness(name: str) -> Finding:
    try:
        adapter = built_in(name).adapter
        warnings = adapter.check()
        versions = ", ".join(f"{what} {number}" for what, number in adapter.versions().items())
    except OutlastError as error:
        return Finding(name, "warning", "not installed", str(error))
    if warnings:
        return Finding(name, "warning", versions, " ".join(warnings))
    return Finding(name, "ok", versions)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
