"""Files that travel to a box and back: how often a question is asked, and what is lost when the way is."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from outlast.errors import BoxError, HarnessError, OutlastError, SandboxUnsupported, WorkspaceError
from outlast.ids import new_id
from outlast.sandbox import Box, JobAsk, Limits, Ref, SandboxProvider, Spec
from outlast.testing.workspace_contract import Log
from outlast.workspace import Command, Site
from outlast.workspaces.boxed.description import Sandboxed, sandbox
from outlast.workspaces.boxed.keeping import KeepThere
from outlast.workspaces.boxed.kind import SandboxKind
from outlast.workspaces.distant import DistantFiles
from outlast.workspaces.docker import Docker
from outlast.workspaces.drive import Drive
from outlast.workspaces.egress import Credential, from_env
from outlast.workspaces.kubernetes import Kubernetes
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from outlast.workspaces.sandbox.client import HeldBox, hold
from outlast.workspaces.sandbox.inside.wire import Unpacker
from tests.sandboxes.bare import Bare, bare_bubblewrap
from tests.servers.docker_engine import Daemon, docker_engine
from tests.servers.kubernetes_api import Cluster, kubeconfig, kubernetes_api
from tests.stays import stay_at, supervised

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


USUAL = sandbox(idle_s=60)


class Counted(ByteStream):
    """A stream to a supervisor, and what is asked over it."""

    def __init__(self, inner: ByteStream, asked: Counter[str]) -> None:
        self._inner = inner
        self._asked = asked
        self._unpacker = Unpacker()

    async def send(self, item: bytes) -> None:
        self._unpacker.feed(item)
        while (message := self._unpacker.next()) is not None:
            self._asked[str(message["op"])] += 1
        await self._inner.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._inner.receive(max_bytes)

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def opened(
    data: Path,
    find: Callable[[Path], SandboxProvider],
    log: Log,
    *,
    fence: int = 1,
    workspace: Sandboxed = USUAL,
    forget: bool = True,
) -> AsyncGenerator[Site]:
    """The site of the session, by an attempt."""
    data.mkdir(parents=True, exist_ok=True)
    kind = SandboxKind(lambda _name, at: find(at))
    async with supervised(data) as processes:
        stay = stay_at(data, processes, fence=fence, root=log.root, aside=log.aside, packs=log)
        stay = replace(stay, home=data.parent / "home")  # recorded once: the same on every machine
        try:
            async with kind.open(workspace.reference(), stay) as site:
                yield site
        finally:
            if forget and fence > 1:
                await kind.forget(workspace.reference(), stay.folder, data)


@asynccontextmanager
async def counted(data: Path) -> AsyncGenerator[tuple[HeldBox, Counter[str]]]:
    """A box without mounts, and what its holder asks."""
    asked, provider, spec = Counter[str](), Bubblewrap(data), Spec("counted", idle_s=60)
    async with provider.attach(spec, 1) as made:
        ref = made.ref

    async def dial() -> ByteStream:
        return Counted(await provider.dial(ref), asked)

    try:
        async with hold(dial, spec, 2, ref) as box:
            await box.beat(110)
            yield box, asked
    finally:
        await provider.destroy(ref)


async def changed(box: HeldBox, line: str, asked: Counter[str]) -> None:
    await box.write("change", line.encode())
    await (await box.begin(_shell("sh change; rm change"))).wait()
    asked.clear()


def _shell(line: str) -> JobAsk:
    return JobAsk(new_id("job"), ["sh", "-c", line])


async def test_a_look_at_what_has_not_changed_is_one_round_trip_and_one_at_what_has_is_three() -> None:
    log = Log()
    with TemporaryDirectory(prefix="d-") as top:
        async with counted(Path(top)) as (box, asked):
            drive = Drive(log, "default")
            files = DistantFiles(box, ["/workspace"])
            keep = KeepThere(box, files, drive, Path(top, "known"), "/workspace")
            await keep.lay_out("")
            await changed(box, "for f in $(seq 200); do echo $f > $f; done; sleep 0.1", asked)
            capture = await keep.capture("")
            log.packs.update(capture.packs)
            drive.captured(capture.root)
            assert asked == {"write": 2, "output": 2, "note": 1}, "it looks, reads what is new, and says so"
            root = capture.root
            for _ in range(3):
                asked.clear()
                assert (await keep.capture(root)).root == root
                # Both are under way at once: the answer is waited for while the question travels.
                assert asked == {"write": 1, "output": 1}
            await changed(box, "echo new > 7; sleep 0.1", asked)
            capture = await keep.capture(root)
            assert list(capture.changed) == ["7"]
            assert asked == {"write": 2, "output": 2, "note": 1}
            await files.close()


async def test_a_command_that_kills_all_it_may_keeps_no_file_from_being_written_down() -> None:
    log = Log()
    with TemporaryDirectory(prefix="d-") as top:
        async with opened(Path(top), bare_bubblewrap, log) as site:
            await site.files.write("one", b"1")
            await log.commit(site)
            await site.run(Command("echo 2 > two; kill -9 -1", "job-1"))
            await log.commit(site)
            assert await site.files.read("two") == b"2\n"
        async with opened(Path(top) / "elsewhere", bare_bubblewrap, log, fence=2) as site:
            assert await site.files.read("two") == b"2\n"


async def test_what_is_stopped_in_a_box_is_not_waited_for_but_begun_anew() -> None:
    with TemporaryDirectory(prefix="d-") as top:
        async with counted(Path(top)) as (box, _):
            files = DistantFiles(box, ["/workspace"], silent_s=1.0)
            tree = files.tree("/workspace")
            await tree.scan()
            await box.write("one", b"1")
            # What looks at the files is stopped for good, as any program of the same user may be.
            line = "for p in /proc/[0-9]*; do grep -qs W[I]NDOW $p/cmdline && kill -STOP ${p#/proc/}; done"
            await (await box.begin(_shell(line))).wait()
            assert [seen.path for seen in (await tree.scan()).entries] == [b"one"]
            await files.close()


async def test_files_larger_than_what_a_box_keeps_of_output_come_back() -> None:
    log = Log()
    with TemporaryDirectory(prefix="d-") as top:
        small = sandbox(idle_s=0, limits=Limits(output_bytes=64 * 1024))
        async with opened(Path(top), bare_bubblewrap, log, workspace=small) as site:
            await site.run(Command("head -c 3000000 /dev/urandom > big; sha256sum big > sum", "job-1"))
            await log.commit(site)
        async with opened(Path(top) / "elsewhere", bare_bubblewrap, log, fence=2, workspace=small) as site:
            assert (await site.run(Command("sha256sum -c sum", "job-2"))).status == 0


@dataclass
class Faulty:
    """A cluster, and where the sites of one session are opened in it."""

    cluster: Cluster
    config: str
    data: Path

    def find(self, _data: Path) -> Kubernetes:
        return Kubernetes(kubeconfig=self.config, start_s=30)


@asynccontextmanager
async def faulty() -> AsyncGenerator[Faulty]:
    with TemporaryDirectory(prefix="d-") as top:
        async with kubernetes_api(Path(top)) as cluster:
            yield Faulty(cluster, str(kubeconfig(cluster, Path(top) / "config")), Path(top) / "data")


async def test_streams_that_are_cut_in_a_capture_are_dialled_again_and_nothing_is_lost() -> None:
    log = Log()
    async with faulty() as at, opened(at.data, at.find, log) as site:
        await site.run(Command("head -c 4000000 /dev/urandom > big; sha256sum big > sum", "job-1"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cut, at.cluster, 5)
            await log.commit(site)
        async with opened(at.data / "elsewhere", bare_bubblewrap, log, fence=2) as other:
            assert (await other.run(Command("sha256sum -c sum", "job-2"))).status == 0


async def _cut(cluster: Cluster, times: int) -> None:
    for _ in range(times):
        await cluster.cut()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()


async def test_an_api_that_is_gone_in_a_capture_ends_the_attempt_and_the_next_goes_on_in_the_same_box() -> (
    None
):
    log = Log()
    async with faulty() as at:
        async with opened(at.data, at.find, log) as site:
            await site.files.write("one", b"1")
            await log.commit(site)
            before = log.root
            await site.files.write("two", b"2")
            at.cluster.broken = 500
            await at.cluster.cut()
            with pytest.raises(WorkspaceError):
                await site.capture()
            assert log.root == before
            at.cluster.broken = 0
        async with opened(at.data, at.find, log, fence=2) as site:
            assert await site.files.read("two") == b"2", "the box lives, and has what was done in it"
            await log.commit(site)
        async with opened(at.data / "elsewhere", bare_bubblewrap, log, fence=3) as other:
            assert await other.files.read("two") == b"2"


async def test_an_api_that_is_gone_while_files_are_laid_out_leaves_no_box_with_half_of_them() -> None:
    log = Log()
    async with faulty() as at:
        async with opened(at.data / "first", bare_bubblewrap, log) as site:
            await site.run(Command("for f in $(seq 300); do head -c 20000 /dev/urandom > $f; done", "job-1"))
            await log.commit(site)
        refused = 0
        for fence in range(2, 8):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_gone_for_a_while, at.cluster, fence)
                try:
                    async with opened(at.data, at.find, log, fence=fence) as site:
                        assert (await captured_root(site)) == log.root
                except OutlastError:
                    refused += 1
                tasks.cancel_scope.cancel()
            at.cluster.broken = 0
        assert refused, "it was gone at no time that mattered"
        async with opened(at.data, at.find, log, fence=9) as site:
            assert (await captured_root(site)) == log.root


async def _gone_for_a_while(cluster: Cluster, nth: int) -> None:
    """The API fails and its streams are cut, a while after the first: later with each attempt."""
    while not cluster.streams:
        await anyio.lowlevel.checkpoint()
    for _ in range(40 * nth):
        await anyio.lowlevel.checkpoint()
    cluster.broken = 503
    await cluster.cut()


async def captured_root(site: Site) -> str:
    capture = await site.capture()
    assert capture is not None
    return capture.root


async def test_a_daemon_that_begins_no_stream_is_waited_for_so_long_and_no_longer() -> None:
    with TemporaryDirectory(prefix="d-") as top:
        async with docker_engine(Path(top)) as daemon:
            hasty = Docker(host=f"unix://{daemon.socket}", stream_s=0.5)
            for silent in ("/attach", "/exec/"):  # of what the container says, and of the exec that dials
                daemon.silent = silent
                with pytest.raises(BoxError, match=r"began no stream within 0\.5 s"):
                    async with hasty.attach(Spec("late"), 1):
                        pass
                daemon.silent = ""
                for found in await hasty.list({}):
                    await hasty.destroy(found.ref)
            async with hasty.attach(Spec("late"), 2) as box:
                assert await (await box.begin(_shell("true"))).wait() == 0


async def test_a_box_whose_stream_comes_late_is_held_when_it_comes() -> None:
    with TemporaryDirectory(prefix="d-") as top:
        async with docker_engine(Path(top)) as daemon, anyio.create_task_group() as tasks:
            daemon.silent = "/exec/"
            tasks.start_soon(_speaks, daemon)
            provider = Docker(host=f"unix://{daemon.socket}")
            async with provider.attach(Spec("late"), 1) as box:
                assert await (await box.begin(_shell("true"))).wait() == 0


async def _speaks(daemon: Daemon) -> None:
    """The daemon answers once it was asked for a stream."""
    while not any("/exec/" in asked.path for asked in daemon.asked):
        await anyio.lowlevel.checkpoint()
    daemon.silent = ""


async def test_another_worker_attaches_to_the_box_and_knows_which_files_it_has() -> None:
    log = Log()
    async with faulty() as at:
        async with opened(at.data / "one", at.find, log) as site:
            for data in (b"0", b"1"):  # the one before the last capture may still be the log's
                await site.files.write("kept", data)
                await log.commit(site)
            await site.run(Command("echo 2 > uncommitted", "job-1"))
        # Another machine's worker: it has nothing but the World and the cluster.
        async with opened(at.data / "two", at.find, log, fence=2, forget=False) as site:
            assert await site.files.read("uncommitted") == b"2\n", "it is the box that stood"
            assert await site.knows("job-1")
        log.root = ""  # as of a log that went on elsewhere, with other files
        async with opened(at.data / "one", at.find, log, fence=3) as site:
            assert list(await site.files.list("")) == [], "a box with wrong files is ended"


async def test_a_program_that_is_not_in_the_image_is_named_with_the_way_out() -> None:
    with TemporaryDirectory(prefix="d-") as top:
        async with opened(Path(top), bare_bubblewrap, Log()) as site:
            with pytest.raises(HarnessError, match="at the path that it has here"):
                async with site.processes.start(["/nowhere/claude"], env={}, cwd=Path("/workspace")):
                    pass
        reads = sandbox(idle_s=0, reads=["/srv"])
        with pytest.raises(SandboxUnsupported, match="no directory of the worker's machine"):
            async with opened(Path(top), bare_bubblewrap, Log(), workspace=reads):
                pass


async def test_certificates_of_the_way_out_are_written_where_programs_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "not to be seen inside")
    forge = Credential("forge.example.com", from_env("FORGE_TOKEN"), name="forge")
    with TemporaryDirectory(prefix="d-") as top:
        workspace = sandbox(idle_s=0, credentials=[forge])
        async with opened(Path(top), bare_bubblewrap, Log(), workspace=workspace) as site:
            ran = await site.run(Command('grep -c "BEGIN CERT" "$SSL_CERT_FILE"; env; ls -a ~', "job-1"))
            assert int(ran.stdout.split("\n")[0]) > 0
            assert "not to be seen inside" not in ran.stdout
            assert list(await site.files.list("")) == [], "it is no file of the session's"


async def test_files_may_be_laid_out_for_longer_than_what_is_tied_lives_without_a_beat() -> None:
    log, asked = Log(), Counter[str]()
    with TemporaryDirectory(prefix="d-") as top:
        async with opened(Path(top) / "first", bare_bubblewrap, log) as site:
            await site.run(Command("for f in $(seq 50); do head -c 50000 /dev/urandom > $f; done", "job-1"))
            await log.commit(site)
        slow = Slow(log, asked)
        async with opened(
            Path(top) / "second", lambda data: Heard(bare_bubblewrap(data), asked), slow, fence=2
        ) as site:
            assert slow.waited, "its files came while the box was beaten for"
            assert await captured_root(site) == log.root


class Heard(Bare):
    """A provider of which it is known what is asked of its boxes."""

    def __init__(self, within: SandboxProvider, asked: Counter[str]) -> None:
        super().__init__(within)
        self._asked = asked

    @asynccontextmanager
    async def attach(self, spec: Spec, fence: int, ref: Ref | None = None) -> AsyncGenerator[Box]:
        async with super().attach(spec, fence, ref) as box:
            yield cast("Box", Beaten(box, self._asked))


class Beaten:
    """A box whose beats are counted."""

    def __init__(self, box: Box, asked: Counter[str]) -> None:
        self._box = box
        self._asked = asked

    async def beat(self, for_s: float) -> None:
        self._asked["beat"] += 1
        await self._box.beat(for_s)

    def __getattr__(self, name: str) -> object:
        return getattr(self._box, name)


class Slow(Log):
    """A log that gives no packs of files before the box was beaten for twice."""

    def __init__(self, log: Log, asked: Counter[str]) -> None:
        super().__init__(log.root, log.aside, log.packs)
        self._beats = asked
        self.waited = False

    async def get_many(self, names: Sequence[str]) -> Mapping[str, bytes]:
        with anyio.fail_after(20):
            while self._beats["beat"] < 2:  # noqa: ASYNC110 - a beat comes by the clock
                await anyio.sleep(0.05)
        self.waited = True
        return await super().get_many(names)
