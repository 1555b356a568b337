# ruff: noqa: INP001  a script for contributors, no package
"""Resolve the lock of a harness that comes from npm anew: `python .ci/harness_lock.py opencode`.

Direct dependencies stand with exact versions in the harness's `lock/package.json`. Beside what npm writes:

* No host is named: npm leaves out where packages came from, we leave out where their authors want donations.
* Packages for other platforms that this registry does not carry are entered without a hash, by their version alone: npm
  refuses a lock that lacks them, and on such a platform it fetches them from a registry that does.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).parents[1] / "src/outlast/adapters"
SYSTEMS = {
    name: name for name in ("linux", "darwin", "win32", "android", "freebsd", "openharmony", "aix", "sunos")
}
SYSTEMS["windows"] = "win32"
PROCESSORS = ("x64", "arm64", "arm", "ia32", "ppc64", "riscv64", "s390x", "loong64", "wasm32")


def main(harness: str) -> None:
    """Write `lock/package-lock.json` of `harness` anew."""
    directory = ADAPTERS / harness.replace("-", "_") / "lock"
    file = directory / "package-lock.json"
    file.unlink(missing_ok=True)
    options = ["--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved", "--no-audit"]
    subprocess.run(["npm", "install", *options, "--no-fund"], cwd=directory, check=True)
    lock = json.loads(file.read_text())
    packages: dict[str, Any] = lock["packages"]
    for entry in packages.values():
        entry.pop("funding", None)
        entry.pop("deprecated", None)
    for missing in [one for entry in packages.values() for one in _optional(entry).items()]:
        packages.setdefault(f"node_modules/{missing[0]}", _by_name(*missing))
    lock["packages"] = dict(sorted(packages.items()))
    text = json.dumps(lock, indent=1, ensure_ascii=False)
    if "://" in text:
        raise SystemExit(f"{file} must name no host")
    file.write_text(text + "\n")


def _optional(entry: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = entry.get("optionalDependencies", {})
    return {name: version for name, version in found.items() if version[0].isdigit()}


def _by_name(name: str, version: str) -> Mapping[str, Any]:
    """The entry of a package for a platform that its name tells."""
    parts = name.rpartition("/")[2].split("-")
    entry: dict[str, Any] = {"version": version, "optional": True}
    entry["cpu"] = [part for part in parts if part in PROCESSORS]
    if systems := [SYSTEMS[part] for part in parts if part in SYSTEMS]:
        entry["os"] = systems
    if "musl" in parts:
        entry["libc"] = ["musl"]
    if not entry["cpu"]:
        raise SystemExit(f"{name} {version} is missing, and its name tells no platform")
    return entry


if __name__ == "__main__":
    main(*sys.argv[1:])
