"""What it costs that a box shares no directory with the worker: its files travel over its supervisor."""

import time
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.trees import plant
from outlast.sandbox import JobAsk, Spec
from outlast.testing.workspace_contract import Log
from outlast.workspaces.boxed.keeping import KeepThere
from outlast.workspaces.distant import DistantFiles
from outlast.workspaces.drive import Drive, Folder
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap

WHAT = "2,000 files, 50 MB"
TOUCH = "for n in 1 2 3 4 5; do d=$((n + {turn} % 5)); echo x >> part$d/unit$d/file$d.py; done; sleep 0.05"
CWD = "/workspace"


async def distant(bench: Bench) -> Sequence[Row]:
    """The floor is the same of a directory of this machine."""
    work, log = bench.directory / "work", Log()
    plant(work)
    here = Folder(Drive(log, "default"), work, bench.directory / "here")
    first = await here.checkpoint("")
    log.packs.update(first.packs)
    restored, floor_ms = list[float](), list[float]()
    same, changed, local = list[float](), list[float](), list[float]()
    for number in range(bench.times(5, 2)):
        spec = Spec(f"far-{number}")
        async with Bubblewrap(bench.directory).attach(spec, 1) as box:
            await box.beat(110)
            files = DistantFiles(box, [CWD])
            drive = Drive(log, "default")
            keep = KeepThere(box, files, drive, bench.directory / f"known-{number}", CWD)
            restored.append(await _timed(lambda keep=keep: keep.lay_out(first.root)))
            target = bench.directory / f"back-{number}"
            back = Folder(Drive(log, "default"), target, bench.directory / f"cache-{number}")
            floor_ms.append(await _timed(lambda back=back: back.restore(first.root)))
            root = (await keep.capture(first.root)).root
            for turn in range(4):
                same.append(await _timed(lambda keep=keep, root=root: keep.capture(root)))
                local.append(await _timed(lambda back=back: back.checkpoint(first.root)))
                line = TOUCH.format(turn=turn)
                job = await box.begin(JobAsk(f"touch-{turn}", ["bash", "-c", line], cwd=CWD))
                assert await job.wait() == 0
                began = time.perf_counter()
                capture = await keep.capture(root)
                changed.append((time.perf_counter() - began) * 1e3)
                log.packs.update(capture.packs)
                drive.captured(capture.root)
                root = capture.root
            await files.close()
    nothing = "the floor is a directory of this machine, in which nothing is new"
    return [
        _row(
            f"distant files: lay out {WHAT}", restored, floor_ms, "the floor is a directory of this machine"
        ),
        _row("distant files: capture, nothing new", same, local, nothing),
        _row("distant files: capture, 5 files touched", changed, local, nothing),
    ]


async def _timed(act: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await act()
    return (time.perf_counter() - began) * 1e3


def _row(name: str, values: Sequence[float], floors: Sequence[float], why: str) -> Row:
    value, floor = median(values), median(floors)
    return Row(name, "", value, "ms", floor=floor, ratio=value / floor, spread=spread(values), why=why)
