"""What `outlast doctor` says of harnesses: where each is installed, in which version, whether that was tested."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from outlast import programs
from outlast.adapter import Adapter
from outlast.cli.agents import built_in, built_in_names, of_application
from outlast.errors import HarnessMissing, OutlastError

Fault: TypeAlias = Callable[[Adapter], str]
"""Why an adapter could ask no model here, and what to do; empty if nothing speaks against it."""
State = Literal["ok", "absent", "warning", "missing"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    state: State
    detail: str
    hint: str = ""


def _none(_: Adapter) -> str:
    return ""


def harness_findings(fault: Fault = _none) -> Iterator[Finding]:
    """A finding for each harness that has an adapter, then one about the Node.js that some of them run on."""
    names = built_in_names()
    yield from (_harness(name, fault) for name in names)
    yield _node(names)


def agent_findings(references: Sequence[str], fault: Fault = _none) -> Iterator[Finding]:
    """A finding for each agent of an application, by `module:object`: whether it can run here, and how durably."""
    yield from (_agent(reference, fault) for reference in references)


def _agent(reference: str, fault: Fault) -> Finding:
    try:
        adapter = of_application(reference).adapter
        warnings = adapter.check()
        told = _told(adapter)
        modelless = fault(adapter)
    except HarnessMissing as error:
        return Finding(reference, "missing", "its program is not here", str(error))
    except OutlastError as error:
        return Finding(reference, "missing", "cannot run here", str(error))
    if modelless:
        return Finding(reference, "missing", f"{told}, but it has no model", modelless)
    return Finding(reference, "warning" if warnings else "ok", told, " ".join(warnings))


def _told(adapter: Adapter) -> str:
    """Its versions, and where it makes a difference how durable it is."""
    durable = adapter.settings().get("durable")
    versions = [f"{what} {number}" for what, number in adapter.versions().items()]
    return ", ".join([*versions, *([f"durable {durable}"] if durable else [])])


def _harness(name: str, fault: Fault) -> Finding:
    try:
        adapter = built_in(name).adapter
        warnings = adapter.check()
        modelless = fault(adapter)
        versions = ", ".join(f"{what} {number}" for what, number in adapter.versions().items())
    except HarnessMissing as error:
        return Finding(name, "absent", "not installed", str(error))
    except OutlastError as error:
        return Finding(name, "warning", "cannot run here", str(error))
    tested = ", tested" if _place(name) and not warnings else ""
    hints = [*warnings, *([modelless] if modelless else [])]
    return Finding(name, "warning" if hints else "ok", f"{versions}{tested}{_place(name)}", " ".join(hints))


def _place(name: str) -> str:
    """Where it stands; nothing of one that outlast does not install."""
    if name not in programs.names():
        return ""
    try:
        return f", in {programs.find(name)}"
    except HarnessMissing:
        return ", not installed by outlast"


def _node(names: list[str]) -> Finding:
    """The Node.js that harnesses run on here, if any that is installed needs one."""
    needed = {one: programs.lock_of(one).node for one in programs.names() if one in names}
    users = {one: minimum for one, minimum in needed.items() if minimum and _is_installed(one)}
    if not users:
        return Finding("node", "ok", "no harness that is installed runs on Node.js")
    minimum = max(users.values(), key=programs.version_of)
    needing = ", ".join(f"{one} ({minimum} or newer)" for one, minimum in users.items())
    try:
        return Finding("node", "ok", f"{programs.node(minimum)}, for {needing}")
    except HarnessMissing as error:
        return Finding("node", "warning", f"too old or not here, for {needing}", str(error))


def _is_installed(name: str) -> bool:
    try:
        programs.find(name)
    except HarnessMissing:
        return False
    return True
