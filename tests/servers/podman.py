"""A real daemon that speaks the Docker Engine API: Podman's service, as root, with all that it keeps in a directory.

Its image is made here, of this machine's programs: no registry is needed.
"""

import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

IMAGE = "localhost/outlast-test:1"
INSTALL = "apt-get install -y --no-install-recommends podman runc"
PROGRAMS = (
    "sh bash cat chmod cut date echo env false find grep head id kill ln ls mkdir mkfifo printf readlink rm "
    "sed seq setsid sleep sort stat tail tee touch true wc"
)
CONTAINERS = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
# Locks and state of its own: by default all services of this user have the same, and one that starts frees the locks of
# the others.
lock_type = "file"
tmp_dir = "{folder}/state"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""
STORAGE = '[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'


class Missing(Exception):
    """It cannot run here: the text says what to do."""


def needed() -> str:
    """The service's program.

    Raises:
        Missing
    """
    found = shutil.which("podman")
    if found is None or shutil.which("runc") is None:
        raise Missing(f"Podman, a real daemon of the Docker API, is missing. Install it, as root: {INSTALL}")
    if os.geteuid() != 0:
        raise Missing(
            "These tests start a daemon of their own, as root. Leave them out with: -k 'not podman'"
        )
    return found


@contextmanager
def podman() -> Generator[str]:
    """The path of the socket of a service that runs."""
    program = needed()
    # A short name: the watcher of a container finds no way to the sockets in a long one, and misses its end.
    with tempfile.TemporaryDirectory(prefix="podman-", ignore_cleanup_errors=True) as name:
        yield from _served(program, Path(name))


def _served(program: str, folder: Path) -> Generator[str]:
    (folder / "containers.conf").write_text(CONTAINERS.format(folder=folder))
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    env = {
        **os.environ,
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    _make_image(folder / "root.tar")
    subprocess.run(
        [program, "import", str(folder / "root.tar"), IMAGE], env=env, check=True, capture_output=True
    )
    socket = folder / "podman.sock"
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen(
            [program, "system", "service", "--time=0", f"unix://{socket}"], env=env, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert service.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, "the service does not come up"
            time.sleep(0.05)
        yield str(socket)
    finally:
        subprocess.run(
            [program, "rm", "--all", "--force", "--time=0"], env=env, check=False, capture_output=True
        )
        service.terminate()
        service.wait(20)
        _end_watchers(folder)


def _end_watchers(folder: Path) -> None:
    """Its watchers of programs stay for minutes after those have ended."""
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = found.read_bytes().split(b"\0")
            if words[0].endswith(b"conmon") and any(os.fsencode(folder) in word for word in words):
                os.kill(int(found.parent.name), signal.SIGKILL)


def _make_image(target: Path) -> None:
    """Python, a few programs, and the libraries that they load."""
    python = Path("/usr/bin/python3").resolve()
    library = Path(f"/usr/lib/{python.name}")
    found = {
        name: Path(path).resolve()
        for name in PROGRAMS.split()
        if (path := shutil.which(name, path="/usr/bin:/bin"))
    }
    with tarfile.open(target, "w") as archive:
        for folder in ("proc", "dev", "sys", "tmp", "run", "etc", "workspace"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        link = tarfile.TarInfo("bin")
        link.type, link.linkname = tarfile.SYMTYPE, "usr/bin"
        archive.addfile(link)
        archive.add(python, "usr/bin/python3")
        archive.add(library, f"usr/lib/{python.name}", filter=_needed_only)
        for name, path in found.items():
            archive.add(path, f"usr/bin/{name}")
        for path in _libraries([python, *found.values(), *library.glob("lib-dynload/*.so")]):
            archive.add(path.resolve(), str(path).lstrip("/"))


def _needed_only(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    left_out = {
        "test",
        "__pycache__",
        "pydoc_data",
        "lib2to3",
        "dist-packages",
        "idlelib",
        "config-3.11-x86_64-linux-gnu",
    }
    return None if left_out & set(Path(entry.name).parts) else entry


def _libraries(programs: list[Path]) -> set[Path]:
    said = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    words = {word for line in said.splitlines() for word in line.split()}
    return {Path(word) for word in words if word.startswith("/") and ".so" in word and not word.endswith(":")}
