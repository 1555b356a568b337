"""Parts of sandboxes that start no process: frames, kept output, control groups, what a box sees."""

import ast
import errno
import os
import re
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import BadInput, BoxError
from outlast.sandbox import Limits, Mount, Spec
from outlast.workspaces.sandbox import inside
from outlast.workspaces.sandbox.bubblewrap import outer
from outlast.workspaces.sandbox.bubblewrap.cgroups import Groups
from outlast.workspaces.sandbox.bubblewrap.places import Place
from outlast.workspaces.sandbox.bubblewrap.system import Sizes, overlapping, steps_for
from outlast.workspaces.sandbox.inside import files
from outlast.workspaces.sandbox.inside.jobs import Refusal
from outlast.workspaces.sandbox.inside.kept import Kept
from outlast.workspaces.sandbox.inside.wire import FRAME_LIMIT, Unpacker, WireError, pack

INSIDE = sorted(Path(inside.__file__).parent.glob("*.py"))
leaves = st.one_of(st.integers(-(2**62), 2**62), st.binary(max_size=30), st.text(max_size=30))
lists = st.lists(leaves, max_size=3)
values = leaves | lists | st.dictionaries(st.text(max_size=5), lists, max_size=2)


@given(st.lists(st.dictionaries(st.text(max_size=8), values, max_size=4), max_size=4), st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[dict[str, object]], size: int
) -> None:
    stream = b"".join(map(pack, frames))
    unpacker = Unpacker()
    came: list[object] = []
    for at in range(0, len(stream), size):
        unpacker.feed(stream[at : at + size])
        while (frame := unpacker.next()) is not None:
            came.append(frame)
    assert came == frames
    assert unpacker.rest() == b""


@given(st.binary(max_size=200))
def test_what_is_no_frame_is_an_error_of_its_own_and_no_other(data: bytes) -> None:
    unpacker = Unpacker()
    unpacker.feed(data)
    try:
        while unpacker.next() is not None:
            pass
    except WireError:
        return


@pytest.mark.parametrize("body", [b"i--5;", b"i-;", b"di5;i6;e", b"b--1:x", b"l" * 50])
def test_numbers_and_nestings_that_are_none_are_such_errors(body: bytes) -> None:
    unpacker = Unpacker()
    unpacker.feed(len(body).to_bytes(4, "big") + body)
    with pytest.raises(WireError):
        unpacker.next()


def test_a_frame_is_bounded_on_both_sides() -> None:
    with pytest.raises(WireError, match="too many"):
        pack({"data": bytes(FRAME_LIMIT)})
    unpacker = Unpacker()
    unpacker.feed((FRAME_LIMIT + 1).to_bytes(4, "big"))
    with pytest.raises(WireError, match="frame of"):
        unpacker.next()
    for bad in (True, None, 1.5, object()):
        with pytest.raises(WireError, match="cannot be sent"):
            pack({"value": bad})


@given(st.lists(st.binary(min_size=1, max_size=90_000), max_size=12), st.integers(0, 400_000))
def test_what_a_stream_wrote_is_kept_to_its_cap_and_a_gap_is_said(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], offset: int
) -> None:
    cap = 100_000
    kept = Kept(str(tmp_path_factory.mktemp("kept") / "stream"), cap, no_room)
    for piece in pieces:
        kept.append(piece)
    whole = b"".join(pieces)
    assert kept.end == len(whole)
    assert kept.head <= max(0, len(whole) - cap)
    at, read = kept.read(offset, 1 << 20)
    assert at == max(offset, kept.head)
    while piece := kept.read(at + len(read), 1 << 20)[1]:
        read += piece
    assert read == whole[at:]
    kept.close()
    assert kept.read(0, 10) == (len(whole), b"")


def test_what_finds_no_room_is_lost_and_said(tmp_path: Path) -> None:
    kept = Kept(str(tmp_path / "none" / "stream"), 100, no_room)
    kept.append(b"lost")
    assert (kept.head, kept.end, kept.read(0, 10)) == (4, 4, (4, b""))


@pytest.mark.parametrize("room", [0, 1, 70_000])
def test_what_finds_no_room_behind_what_is_kept_is_lost_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    kept = Kept(str(tmp_path / "stream"), 400_000, no_room)
    if room:
        kept.append(bytes(room))
    monkeypatch.setattr("os.pwrite", no_space)
    kept.append(b"lost")
    assert (kept.head, kept.end, kept.read(0, 10)) == (room + 4, room + 4, (room + 4, b""))


def test_room_is_made_where_some_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = [True]

    def write(fd: int, data: memoryview, at: int) -> int:
        return no_space() if full else real(fd, data, at)

    real = os.pwrite
    monkeypatch.setattr("os.pwrite", write)
    kept = Kept(str(tmp_path / "stream"), 100, lambda: bool(full and full.pop()))
    kept.append(b"kept")
    assert kept.read(0, 10) == (0, b"kept")


def test_a_directory_of_too_many_names_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_LISTED", 3)
    for number in range(4):
        (tmp_path / str(number)).touch()
    with pytest.raises(Refusal, match="holds 4 names"):
        files.list_(str(tmp_path), "")
    (tmp_path / "0").unlink()
    assert len(cast("list[object]", files.list_(str(tmp_path), "")["entries"])) == 3


def no_room() -> bool:
    return False


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "path", [*INSIDE, *Path(outer.__file__).parent.glob("*.py")], ids=lambda path: path.stem
)
def test_the_supervisor_is_python_3_9_and_of_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    for name in names:
        ours = name.startswith("outlast.workspaces.sandbox")
        assert ours or name.partition(".")[0] in sys.stdlib_module_names, name


def group(path: Path, *, controllers: str, given_: str = "", processes: str = "") -> Path:
    path.mkdir(parents=True)
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(given_)
    (path / "cgroup.procs").write_text(processes)
    return path


def own(directory: Path, path: str) -> Groups:
    file = directory / "own"
    file.write_text(f"0::{path}\n")
    return Groups(directory / "cg", file)


def test_a_group_that_is_handed_over_holds_the_limits_of_the_whole_box(tmp_path: Path) -> None:
    service = group(tmp_path / "cg/worker.service", controllers="cpu io memory pids")
    group(service / "worker", controllers="", processes="17\n")
    groups = own(tmp_path, "/worker.service/worker")
    caps = groups.caps("box", Limits(memory_bytes=1000, processes=20, cpus=1.5))
    [(path, written)] = caps.groups.items()
    assert path == str(service / "outlast-box")
    assert (service / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert written["memory.max"] == "1000"
    assert written["memory.swap.max"] == "0"
    assert written["pids.max"] == "20"
    assert written["cpu.max"] == "150000 100000"
    assert not caps.each
    assert not groups.caps("box", Limits()).groups
    (service / "cgroup.subtree_control").write_text("cpu memory pids")
    assert groups.warning() == ""


def test_where_no_group_is_ours_each_process_is_limited_and_that_is_said(tmp_path: Path) -> None:
    group(tmp_path / "cg/user.slice", controllers="memory pids")
    group(tmp_path / "cg/user.slice/shell", controllers="memory pids", processes="17\n")
    (tmp_path / "cg/user.slice/cgroup.procs").write_text("1\n")
    groups = own(tmp_path, "/user.slice/shell")
    caps = groups.caps("box", Limits(memory_bytes=1000, processes=20))
    assert not caps.groups
    assert caps.each == {"memory_bytes": 1000, "processes": 20}
    assert "cpus, memory, processes: limited for each process" in groups.warning()
    assert "DelegateSubgroup=worker" in groups.warning()
    assert "DelegateSubgroup=worker" in Groups(tmp_path / "none", tmp_path / "none").warning()


def test_the_older_hierarchies_are_used_one_by_one(tmp_path: Path) -> None:
    root, file = tmp_path / "cg", tmp_path / "own"
    (root / "memory/worker").mkdir(parents=True)
    file.write_text("4:memory:/worker\n8:pids:/\n0::/\n")
    caps = Groups(root, file).caps("box", Limits(memory_bytes=1000, processes=20))
    assert caps.groups == {
        str(root / "memory/worker/outlast-box"): {
            "memory.limit_in_bytes": "1000",
            "memory.memsw.limit_in_bytes": "1000",
        }
    }
    assert caps.each == {"processes": 20}


def test_a_box_shows_nothing_of_etc_but_what_is_listed() -> None:
    steps = steps_for(Spec("box"), 1000, 1000, Sizes(), seals=True, filters=True)
    shown = {str(step[-1]) for step in steps if step[0] in {"bind", "ro-bind", "file", "symlink"}}
    assert "/etc/passwd" in shown
    assert not {path for path in shown if re.search("shadow|ssh|sudoers|private|gitconfig|netrc", path)}
    assert not {path for path in shown if path.startswith(("/home", "/var/lib", "/run/"))} - {
        "/run/outlast/inside"
    }
    assert not [step for step in steps if step[0] == "bind"]
    assert ["disable-userns"] in steps
    assert steps[-1] == ["remount-ro", "/"]


def test_mounts_lie_over_nothing_that_makes_the_box(tmp_path: Path) -> None:
    for target in ("/proc/x", "/dev", "/etc/passwd", "/run/outlast", "relative"):
        assert overlapping(Spec("box", mounts=[Mount(tmp_path, target)])) == [target]
    assert not overlapping(
        Spec("box", mounts=[Mount(tmp_path, "/workspace"), Mount(tmp_path, "/home/me/.cache")])
    )
    with pytest.raises(BoxError, match="is not there"):
        steps_for(Spec("box", mounts=[Mount(tmp_path / "no", "/x")]), 1, 1, Sizes(), seals=True, filters=True)


def test_inner_mounts_come_after_what_they_lie_in(tmp_path: Path) -> None:
    mounts = [Mount(tmp_path, "/a/b/c"), Mount(tmp_path, "/a", writable=True), Mount(tmp_path, "/a/b")]
    steps = steps_for(Spec("box", cwd="/a", mounts=mounts), 1, 1, Sizes(), seals=True, filters=True)
    assert [step[2] for step in steps if step[-1] in {"/a", "/a/b", "/a/b/c"} and "bind" in str(step[0])] == [
        "/a", "/a/b", "/a/b/c",
    ]  # fmt: skip


def test_a_name_that_leads_elsewhere_is_no_name(tmp_path: Path) -> None:
    for name in ("", ".", "..", "a/b", "../x", "A", "a\0b", "a" * 300):
        with pytest.raises(BadInput):
            Place(tmp_path, name)
