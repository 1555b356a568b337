"""`outlast doctor`: what is here, what is tested, what is missing, and how to mend it."""

import os
import platform
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import apsw
import click

from outlast.adapter import Adapter
from outlast.cli.boxes import provider_findings
from outlast.cli.checks import disks, shells, stores
from outlast.cli.exits import Exit
from outlast.cli.harnesses import Finding, agent_findings, harness_findings
from outlast.cli.options import Setup, examples, perform, shared
from outlast.cli.providers import OPENAI_DIALECTS, choose, fault_of
from outlast.engine.pidns import can_use_pid_namespace
from outlast.engine.processes import start_supervised
from outlast.errors import OutlastError
from outlast.folders import make_private
from outlast.ids import new_id
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap

_MARK = {
    "ok": ("●", "green"),
    "absent": ("○", "bright_black"),
    "warning": ("!", "yellow"),
    "missing": ("✗", "red"),
}


@click.command(epilog=examples("outlast doctor", "outlast doctor shop.agents:support"))
@click.argument("agents", nargs=-1, metavar="[MODULE:AGENT]...")
@shared
def doctor(agents: tuple[str, ...], world: str | None, json: bool) -> None:
    """Tell what is installed, which versions are tested, what is missing and how to get it.

    Of agents of an application that are named it tells whether they can run here. It changes nothing, but makes the
    World and the data directory if there are none. The exit status is 4 if something is missing without which no
    turn can be advanced.
    """

    async def body(setup: Setup) -> int:
        missing = False
        async for finding in _findings(setup, agents):
            missing = missing or finding.state == "missing"
            setup.say(finding, _text(finding))
        return Exit.UNAVAILABLE if missing else Exit.OK

    perform(body, world=world, json=json)


async def _findings(setup: Setup, agents: Sequence[str]) -> AsyncGenerator[Finding]:
    yield _platform()
    yield _python()
    world = await _world(setup)
    yield world
    for finding in disks(setup.settings):
        yield finding
    if world.state == "ok":
        async for finding in stores(setup):
            yield finding
    yield await _supervisor(setup)
    yield await _pid_namespace()
    yield await _sandboxes(setup)
    yield await shells(setup)
    async for finding in provider_findings(setup.settings.data):
        yield finding
    fault = partial(_fault, setup)
    for finding in harness_findings(fault):
        yield finding
    for finding in agent_findings(agents, fault):
        yield finding
    yield _provider("anthropic models", setup, "anthropic")
    yield _provider("openai models", setup, OPENAI_DIALECTS[0])


def _text(finding: Finding) -> str:
    mark, colour = _MARK[finding.state]
    hint = f"\n  {'':16} {finding.hint}" if finding.hint else ""
    return f"{click.style(mark, fg=colour)} {finding.what:16} {finding.detail}{hint}"


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
        return Finding("world", "missing", "cannot be used", str(error))


async def _supervisor(setup: Setup) -> Finding:
    """Whether what a worker starts can be killed and proved dead here: by doing it."""
    locks = setup.settings.data / "locks"
    lock = locks / new_id("doctor")
    try:
        make_private(locks)
        async with await start_supervised([sys.executable, "-c", ""], lock=lock, ttl_s=10.0) as process:
            await process.wait()
        return Finding("supervisor", "ok", "kills what a worker started, and proves it dead")
    except (OutlastError, OSError) as error:
        return Finding("supervisor", "missing", str(error), "Without it no turn is advanced here.")
    finally:
        with suppress(OSError):
            lock.unlink()


async def _pid_namespace() -> Finding:
    probe = await can_use_pid_namespace()
    if probe.usable:
        return Finding("pid namespace", "ok", probe.reason)
    hint = "Harnesses run under the supervisor alone. With pip install 'outlast[claude-code]' bubblewrap comes along."
    return Finding("pid namespace", "warning", probe.reason, hint)


async def _sandboxes(setup: Setup) -> Finding:
    """Whether sandboxes can be made on this machine: by making the namespaces of one."""
    try:
        warnings = await Bubblewrap(setup.settings.data).check()
    except OutlastError as error:
        hint = "Sessions with a sandbox are not advanced here; all others are."
        return Finding("sandboxes", "warning", str(error), hint)
    detail = "bubblewrap makes them, for an ordinary user"
    return Finding("sandboxes", "warning" if warnings else "ok", detail, f"\n  {'':16} ".join(warnings))


def _fault(setup: Setup, adapter: Adapter) -> str:
    """Why a new session of `adapter` would have no model here."""
    return fault_of(setup.settings, os.environ, adapter, adapter.settings())


def _provider(what: str, setup: Setup, dialect: str) -> Finding:
    chosen = choose(setup.settings, os.environ, dialect)
    return Finding(what, "warning" if chosen.fault else "ok", chosen.told, chosen.fault)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
