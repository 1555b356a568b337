"""What is asked of a Docker daemon, where it is found, and what is made of its refusals."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from outlast.errors import BoxError, BoxGone, SandboxUnsupported
from outlast.sandbox import Limits, Mount, Spec
from outlast.workspaces.docker import Docker
from outlast.workspaces.docker.address import address_of
from outlast.workspaces.docker.container import container_name, create_body, env_of
from outlast.workspaces.docker.frames import Frames
from tests.servers.docker_engine import Daemon, docker_engine

SECRET = "sk-do-not-show-me"
SPEC = Spec(
    "ticket-1",
    env={"OUTLAST_TOKEN": SECRET},
    limits=Limits(memory_bytes=1 << 28, processes=100, cpus=1.5),
    labels={"tenant": "blue"},
)


async def attach(daemon: Daemon, spec: Spec = SPEC, *, image: str = "python:3.13", pull: bool = True) -> None:
    provider = Docker(host=f"unix://{daemon.socket}", image=image, pull=pull)
    async with provider.attach(spec, 1):
        pass


def test_a_container_is_restricted_whatever_its_image() -> None:
    body = create_body(SPEC, "any:1", (1000, 1000), ["python3"])
    host = body["HostConfig"]
    assert body["User"] == "1000:1000"
    assert body["NetworkDisabled"] is True
    assert {
        name: host[name] for name in ("NetworkMode", "ReadonlyRootfs", "Privileged", "CapDrop", "SecurityOpt")
    } == {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
    }
    assert (host["PidsLimit"], host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (
        100,
        1 << 28,
        1 << 28,
        15 * 10**8,
    )
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["AutoRemove"] is True
    assert not host.keys() & {"CapAdd", "Devices", "PidMode", "IpcMode", "UsernsMode", "Binds"}


def test_processes_are_bounded_where_nobody_says_how_many() -> None:
    assert create_body(Spec("a"), "any:1", (1, 1), [])["HostConfig"]["PidsLimit"] == 4096


def test_mounts_are_read_only_unless_they_are_said_to_be_written_to(tmp_path: Path) -> None:
    spec = replace(SPEC, mounts=[Mount(tmp_path, "/opt/tools"), Mount(tmp_path, "/workspace", writable=True)])
    mounts = create_body(spec, "any:1", (1000, 1000), [])["HostConfig"]["Mounts"]
    assert [(one["Type"], one["Target"], one.get("ReadOnly")) for one in mounts] == [
        ("volume", "/outlast", None),
        ("bind", "/opt/tools", True),
        ("bind", "/workspace", False),
    ]


def test_no_two_names_have_one_container() -> None:
    names = ["a", "A", "a/b", "a-b", "x" * 200, "x" * 201, ""]
    assert len({container_name(name) for name in names}) == len(names)


def test_of_its_image_a_box_has_the_search_path_and_no_more() -> None:
    inspected = {"Config": {"Env": ["PATH=/opt/bin:/bin", "GPG_KEY=1", "LANG=C"]}}
    assert env_of(inspected) == {"PATH": "/opt/bin:/bin", "LANG": "C"}


@pytest.mark.parametrize("cut", [1, 3, 8, 11, 4096])
def test_frames_are_taken_apart_however_they_are_cut(cut: int) -> None:
    stream = b"\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\4oops\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\6 world"
    frames = Frames()
    assert b"".join(frames.feed(stream[at : at + cut]) for at in range(0, len(stream), cut)) == b"hello world"
    assert frames.said == b"oops"


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"DOCKER_HOST": "unix:///run/d.sock"}, "unix:///run/d.sock"),
        ({"DOCKER_HOST": "tcp://box:2375"}, "tcp://box:2375"),
        ({"DOCKER_HOST": "tcp://box", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/c"}, "tcps://box:2376"),
    ],
)
def test_a_daemon_is_found_as_its_command_line_finds_it(environ: Mapping[str, str], found: str) -> None:
    assert address_of(environ).name == found


def test_a_daemon_is_found_by_the_context_that_was_chosen(tmp_path: Path) -> None:
    meta = tmp_path / ".docker/contexts/meta/abc"
    meta.mkdir(parents=True)
    said = {"Name": "colima", "Endpoints": {"docker": {"Host": "unix:///colima.sock"}}}
    (meta / "meta.json").write_text(json.dumps(said))
    (tmp_path / ".docker/config.json").write_text('{"currentContext": "colima"}')
    assert address_of({"HOME": str(tmp_path)}).socket == "/colima.sock"
    with pytest.raises(SandboxUnsupported, match="no Docker context 'other'"):
        address_of({"HOME": str(tmp_path), "DOCKER_CONTEXT": "other"})


def test_an_address_that_we_do_not_speak_says_what_to_do() -> None:
    with pytest.raises(SandboxUnsupported, match="forward the socket first"):
        address_of({"DOCKER_HOST": "ssh://me@box"})


async def test_where_no_daemon_listens_it_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnsupported, match=r"does not answer .* Start the daemon, or set DOCKER_HOST"):
        await Docker(host=f"unix://{tmp_path}/none.sock").check()


async def test_a_daemon_that_is_too_old_is_not_asked() -> None:
    with TemporaryDirectory() as folder:
        async with docker_engine(Path(folder)) as daemon:
            daemon.version = "1.30"
            with pytest.raises(SandboxUnsupported, match=r"speaks API 1\.30 only"):
                await attach(daemon)


@pytest.mark.crash
async def test_no_secret_arrives_at_the_daemon() -> None:
    with TemporaryDirectory() as folder:
        async with docker_engine(Path(folder)) as daemon:
            await attach(daemon)
            assert any(asked.path.endswith("/containers/create") for asked in daemon.asked)
            for asked in daemon.asked:
                assert SECRET.encode() not in asked.body
                assert SECRET not in asked.path + str(asked.query)


@pytest.mark.crash
async def test_an_image_that_is_not_there_is_pulled_and_else_it_is_said_how_to_bring_it() -> None:
    with TemporaryDirectory() as folder:
        async with docker_engine(Path(folder)) as daemon:
            await attach(daemon, image="pullable:2")
            assert "pullable:2" in daemon.images
            with pytest.raises(BoxError, match=r"cannot pull it .*Where no registry is reached, bring it"):
                await attach(daemon, image="nowhere:1")
            with pytest.raises(BoxError, match=r"`docker pull nowhere:1`"):
                await attach(daemon, image="nowhere:1", pull=False)
            assert not daemon.held


async def test_an_image_without_python_is_said_to_need_it() -> None:
    with TemporaryDirectory() as folder:
        async with docker_engine(Path(folder)) as daemon:
            daemon.images["bare:1"] = folder
            with pytest.raises(BoxError, match=r"needs Python 3.9 or newer as `python3`"):
                await attach(daemon, image="bare:1")
            assert not daemon.held


@pytest.mark.crash
async def test_a_box_that_ends_as_it_starts_says_its_last_words() -> None:
    with TemporaryDirectory() as folder:
        async with docker_engine(Path(folder)) as daemon:
            old = Path(folder, "old")
            old.mkdir()
            program = old / "python3"
            program.write_text("#!/bin/sh\necho 'python3: this one is broken' >&2; exit 3\n")
            program.chmod(0o755)
            daemon.images["broken:1"] = str(old)
            daemon.binds = [(old, str(old), False)]
            with pytest.raises(BoxError, match=r"ended as soon as it was started: .*this one is broken"):
                await attach(daemon, image="broken:1")


@pytest.mark.parametrize(
    ("part", "status", "said", "told"),
    [
        (
            "/create",
            400,
            "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs: limit",
            "Take the limit away",
        ),
        ("/create", 403, "authorization denied by plugin", "refuses the container (403)"),
        ("/archive", 500, "no space left on device", "cannot be written: no space left"),
    ],
)
async def test_a_refusal_is_passed_on_with_what_to_do(part: str, status: int, said: str, told: str) -> None:
    with TemporaryDirectory() as folder:
        async with docker_engine(Path(folder)) as daemon:
            daemon.refuse = (part, status, said)
            with pytest.raises(BoxError) as caught:
                await attach(daemon)
            assert told in str(caught.value)
            assert not daemon.held


async def test_a_box_that_was_removed_from_outside_is_gone() -> None:
    with TemporaryDirectory() as folder:
        async with docker_engine(Path(folder)) as daemon:
            provider = Docker(host=f"unix://{daemon.socket}")
            with pytest.raises(BoxGone):
                await provider.dial({"container": "f" * 64})
            await provider.destroy({"container": "f" * 64})
            with anyio.fail_after(5):
                assert await provider.list({}) == []
