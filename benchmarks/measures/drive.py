"""What it costs to keep a directory, and to bring it back: a drive beside git, restic, and tar with zstd."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.trees import Git, Keeper, Ours, Restic, Tar, plant, touch, weight

WHAT = "2,000 files, 50 MB"
CHECKPOINT_MS, CHECKPOINT_KB, RESTORE_MS = 100.0, 200.0, 1_500.0


@dataclass
class _Took:
    """What one way took, in milliseconds and kilobytes."""

    first_ms: float = 0.0
    again_ms: list[float] = field(default_factory=list[float])
    apart_ms: list[float] = field(default_factory=list[float])
    new_kb: list[float] = field(default_factory=list[float])
    restore_ms: list[float] = field(default_factory=list[float])


async def drive(bench: Bench) -> Sequence[Row]:
    """A checkpoint after five files were touched in at most 100 ms and 200 KB; brought back in at most 1.5 s."""
    work = bench.directory / "work"
    plant(work)
    ours, took = Ours(bench.directory / "ours"), _Took()
    peers = [(kind(bench.directory / kind.name.split()[0]), _Took()) for kind in (Git, Restic, Tar)]
    took.first_ms = await _timed_ours(ours, work)
    for peer, its in peers:
        its.first_ms = _timed(lambda peer=peer: peer.keep(work))
    for turn in range(bench.times(9, 3)):
        touch(work, 2 * turn)
        before = weight(ours.store)
        took.again_ms.append(await _timed_ours(ours, work))
        took.new_kb.append((weight(ours.store) - before) / 1e3)
        for peer, its in peers:
            _again(peer, its, work)
        touch(work, 2 * turn + 1)
        took.apart_ms.append(ours.keep_apart(work))
    for _ in range(bench.times(5, 2)):
        began = time.perf_counter()
        await ours.bring_back(bench.directory / "back")
        took.restore_ms.append((time.perf_counter() - began) * 1e3)
        shutil.rmtree(bench.directory / "back")
        for peer, its in peers:
            _back(peer, its, bench.directory / "back")
    git = peers[0][1]
    return [*_ours(took, git), *(row for peer, its in peers for row in _theirs(peer.name, its))]


def _again(peer: Keeper, its: _Took, work: Path) -> None:
    before = weight(peer.store)
    its.again_ms.append(_timed(lambda: peer.keep(work)))
    its.new_kb.append((weight(peer.store) - before) / 1e3)


def _back(peer: Keeper, its: _Took, target: Path) -> None:
    target.mkdir()
    its.restore_ms.append(_timed(lambda: peer.bring_back(target)))
    shutil.rmtree(target)


def _timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e3


async def _timed_ours(ours: Ours, work: Path) -> float:
    began = time.perf_counter()
    await ours.keep(work)
    return (time.perf_counter() - began) * 1e3


def _ours(took: _Took, git: _Took) -> Sequence[Row]:
    why = "the floor is git, with an index and a bare repository of its own"
    return [
        _row(
            f"drive: checkpoint of {WHAT}, 5 touched", took.again_ms, "ms", CHECKPOINT_MS, git.again_ms, why
        ),
        _row("drive: the same in a fresh process", took.apart_ms, "ms", CHECKPOINT_MS, git.again_ms, why),
        _row("drive: new bytes of that checkpoint", took.new_kb, "KB", CHECKPOINT_KB, git.new_kb, why),
        _row("drive: bring it back", took.restore_ms, "ms", RESTORE_MS, git.restore_ms, why),
        Row("drive: first checkpoint", "", took.first_ms, "ms", floor=git.first_ms),
    ]


def _row(
    name: str, values: Sequence[float], unit: str, limit: float, floors: Sequence[float], why: str
) -> Row:
    value = median(values)
    return Row(
        name=name,
        world="",
        value=value,
        unit=unit,
        floor=median(floors),
        ratio=value / median(floors),
        target=f"<= {limit:,.0f} {unit}",
        met=value <= limit,
        spread=spread(values),
        why=why,
    )


def _theirs(name: str, its: _Took) -> Sequence[Row]:
    return [
        Row(f"{name}: 5 touched", "", median(its.again_ms), "ms", spread=spread(its.again_ms)),
        Row(f"{name}: new bytes of that", "", median(its.new_kb), "KB", spread=spread(its.new_kb)),
        Row(f"{name}: bring it back", "", median(its.restore_ms), "ms", spread=spread(its.restore_ms)),
        Row(f"{name}: first", "", its.first_ms, "ms"),
    ]
