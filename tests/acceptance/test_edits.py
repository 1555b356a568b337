"""What the adapters say that edits come to, beside what the real programs make of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outlast.adapter import Agent
from outlast.adapters.opencode import OpenCode
from outlast.engine.recover import FILES_BACK, UNDONE
from outlast.gate import Point
from outlast.ids import content_hash
from outlast.records import CallIntent, CallOutcome, CallStarted, Verdict
from outlast.recovery import IN_DOUBT
from outlast.testing.adapter_contract import Subject, staged
from outlast.testing.adapter_contract.stage import prompt, says, seen, until
from outlast.testing.faults import Spot
from outlast.testing.models import Step, ToolUse
from outlast.tool import Tool
from outlast.workspaces.sandbox import sandbox
from tests.harnesses import claude_code, codex, opencode, pi

TEXT = "".join(f"Line {number} of many.\n" for number in range(20_000))
OLD = "one\ntwo\nthree\nfour\nfive\n"


@dataclass(frozen=True)
class Tried:
    """One edit of one file."""

    use: ToolUse
    path: str
    before: str | None = OLD
    told: bool = True
    """What it comes to is worked out."""


def _claude(path: str, *, before: str | None = OLD, told: bool = True, **edit: Any) -> Tried:
    name = "Write" if "content" in edit else "Edit"
    return Tried(ToolUse(name=name, input={"file_path": f"{{shop}}/{path}", **edit}), path, before, told)


def _patch(path: str, *lines: str, before: str | None = OLD, told: bool = True, cd: str = "") -> Tried:
    patch = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    use = ToolUse(name="exec_command", input={"cmd": f"{cd}apply_patch <<'EOF'\n{patch}\nEOF"})
    return Tried(use, path, before, told)


def _whole(path: str, *lines: str, name: str = "apply_patch", key: str = "input") -> Tried:
    patch = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    return Tried(ToolUse(name=name, input={key: patch}), path)


def _opencode(path: str, *, before: str | None = OLD, told: bool = True, **edit: Any) -> Tried:
    name = "write" if "content" in edit else "edit"
    return Tried(ToolUse(name=name, input={"filePath": f"{{shop}}/{path}", **edit}), path, before, told)


def _pi(path: str, *pairs: tuple[str, str], content: str | None = None, **more: Any) -> Tried:
    if content is not None:
        return Tried(ToolUse(name="write", input={"path": path, "content": content}), path, **more)
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    return Tried(ToolUse(name="edit", input={"path": path, "edits": edits}), path, **more)


class CodexPatching(codex.CodexSubject):
    """Codex, whose model calls the tool for patches by its name."""

    recipe = "tests.acceptance.test_edits:CODEX_PATCHING"

    def write(self, path: str, text: str) -> ToolUse:
        return _adding(path, text, "input")


class OpenCodePatching(opencode.OpenCodeSubject):
    """OpenCode with a model for which it has `apply_patch` in place of its other tools for edits."""

    dialect = "openai-responses"
    recipe = "tests.acceptance.test_edits:OPENCODE_PATCHING"

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, OpenCode(model="openai/gpt-5"), tools=tools)

    def write(self, path: str, text: str) -> ToolUse:
        return _adding(path, text, "patchText")


def _adding(path: str, text: str, key: str) -> ToolUse:
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"
    return ToolUse(name="apply_patch", input={key: patch})


CODEX_PATCHING = CodexPatching()
OPENCODE_PATCHING = OpenCodePatching()
CLAUDE = [
    _claude("new.txt", before=None, content="made\n"),
    _claude("deep/new.txt", before=None, content="made"),
    _claude("anew.txt", content="other\n"),
    _claude("crlf-anew.txt", before="a\r\nb\r\n", content="c\nd\n"),
    _claude("once.txt", old_string="two\nthree", new_string="2\n3"),
    _claude("out.txt", old_string="two", new_string=""),
    _claude("every.txt", before="a b a b a", old_string="a", new_string="$&", replace_all=True),
    _claude("dollar.txt", old_string="two", new_string="$1 $& $$"),
    _claude("blanks.md", old_string="two", new_string="2  "),
    _claude("blanks.txt", old_string="two", new_string="2  "),  # its hook is told what it will put in
    _claude("crlf.txt", before="a\r\nb\r\n", old_string="a", new_string="c", told=False),
    _claude("quotes.txt", before="say “it”\n", old_string='"it"', new_string='"that"', told=False),
    _claude("made.txt", before=None, old_string="", new_string="made by an edit\n"),
    _claude("whole.txt", before="x", old_string="x", new_string=""),
]
CODEX = [
    _patch("new.txt", "*** Add File: new.txt", "+made", "+", "+twice", before=None),
    _patch("deep/new.txt", "*** Add File: deep/new.txt", "+made", before=None),
    _patch("over.txt", "*** Add File: over.txt", "+made"),
    _patch("once.txt", "*** Update File: once.txt", "@@", " one", "-two", "+2", " three"),
    _patch("twice.txt", "*** Update File: twice.txt", "@@", "-one", "+1", "@@ three", "-four", "+4", "+4.5"),
    _patch("end.txt", "*** Update File: end.txt", "@@", " four", "-five", "+5", "*** End of File"),
    _patch("unended.txt", "*** Update File: unended.txt", "@@", "-b", "+c", before="a\nb"),
    _patch("moved.txt", "*** Update File: moved.txt", "*** Move to: to.txt", "@@", "-two", "+2"),
    _patch("gone.txt", "*** Delete File: gone.txt"),
    _patch(
        "blanks.txt", "*** Update File: blanks.txt", "@@", "-two", "+2", before="one\ntwo  \n", told=False
    ),
    _patch("crlf.txt", "*** Update File: crlf.txt", "@@", "-a", "+c", before="a\r\nb\r\n", told=False),
    _patch("sub/in.txt", "*** Update File: in.txt", "@@", "-two", "+2", cd="cd sub && "),
    _whole(
        "tool.txt", "*** Update File: tool.txt", "@@ one", "-two", "+2", "*** Add File: by-tool.txt", "+made"
    ),
]
OPENCODE = [
    _opencode("new.txt", before=None, content="made\n"),
    _opencode("anew.txt", content="other\r\nand\n"),
    _opencode("once.txt", oldString="two\nthree", newString="2\n$&"),
    _opencode("every.txt", before="a b a b a", oldString="a", newString="c", replaceAll=True),
    _opencode("dollar.txt", before="a b a", oldString="a", newString="$&$&", replaceAll=True, told=False),
    _opencode("out.txt", oldString="two", newString=""),
    _opencode("made.txt", before=None, oldString="", newString="made by an edit\n"),
    _opencode("crlf.txt", before="a\r\nb\r\n", oldString="a", newString="c", told=False),
    _opencode("blanks.txt", before="  a\n  b\n", oldString="a\nb", newString="c", told=False),
]
PATCHES = [
    _whole("once.txt", "*** Update File: once.txt", "@@", " one", "-two", "+2", " three", key="patchText"),
    _whole(
        "twice.txt",
        "*** Update File: twice.txt",
        "@@",
        "-one",
        "+1",
        "@@ three",
        "-four",
        "+4",
        key="patchText",
    ),
    _whole(
        "end.txt",
        "*** Update File: end.txt",
        "@@",
        " four",
        "-five",
        "+5",
        "*** End of File",
        key="patchText",
    ),
    _whole(
        "moved.txt", "*** Update File: moved.txt", "*** Move to: to.txt", "@@", "-two", "+2", key="patchText"
    ),
    _whole("gone.txt", "*** Delete File: gone.txt", "*** Add File: new.txt", "+made", key="patchText"),
    _whole("empty.txt", "*** Add File: lines.txt", "+made", "+", key="patchText"),
]
PI = [
    _pi("new.txt", content="made\n", before=None),
    _pi("anew.txt", content="other\r\n"),
    _pi("once.txt", ("two\nthree", "2\n$&")),
    _pi("several.txt", ("four", "4"), ("one", "two"), ("two", "2")),
    _pi("out.txt", ("two", "")),
    _pi("crlf.txt", ("a", "c"), before="a\r\nb\r\n", told=False),
    _pi("quotes.txt", ('"it"', '"that"'), before="say “it”\n", told=False),
]
SUBJECTS: Mapping[str, tuple[Subject, Sequence[Tried]]] = {
    "claude-code": (claude_code.SUBJECT, CLAUDE),
    "codex": (codex.SUBJECT, CODEX),
    "codex-patching": (CODEX_PATCHING, []),
    "opencode": (opencode.SUBJECT, OPENCODE),
    "opencode-patching": (OPENCODE_PATCHING, PATCHES),
    "pi": (pi.SUBJECT, PI),
}


def harness(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.harness(harness=SUBJECTS[name][0].name))


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.parametrize("name", [harness(name) for name, (_, edits) in SUBJECTS.items() if edits])
async def test_the_real_program_makes_of_files_what_was_worked_out(name: str, tmp_path: Path) -> None:
    subject, edits = SUBJECTS[name]
    shop = tmp_path / "shop"
    shop.mkdir()
    for one in edits:
        if one.before is not None:
            (shop / one.path).parent.mkdir(exist_ok=True)
            (shop / one.path).write_bytes(one.before.encode())
    uses = [_placed(one.use, shop) for one in edits]
    reads = [
        ToolUse(name="Read", input={"file_path": str(shop / one.path)})
        for one in edits
        if name == "claude-code" and one.before is not None
    ]
    first = [Step(text="I look.", tools=tuple(reads))] if reads else []
    steps = [*first, *(Step(text=f"Edit {at}.", tools=(use,)) for at, use in enumerate(uses)), *says("Done.")]
    async with staged(subject, tmp_path, {"go": steps}) as stage:
        outcome = await stage.finish(await stage.send(prompt("go")))
        assert str(outcome) == "Done.", outcome
        noted = [one.witness.value() for one in await stage.of_kind(CallStarted)]
        told = stage.last_body().decode()
    witnesses = [one for one in noted if one is not None]
    faults: list[str] = []
    for one, witness in zip(edits, witnesses, strict=True):
        for file in witness["files"]:
            path = shop / file["path"]
            now = content_hash(path.read_bytes()).hex() if path.exists() else ""
            if one.told and file.get("after") != now:
                faults.append(
                    f"{one.path}: {path.read_bytes() if path.exists() else None!r} was not expected"
                )
            if not one.told and "after" in file:
                faults.append(f"{one.path}: nothing should be said of it, which is {path.read_bytes()!r}")
        said = witness["says"].splitlines()[-1]
        if one.told and said not in told and name != "opencode-patching":  # it names them below its worktree
            faults.append(f"{one.path}: it is not said {said!r}")
    assert not faults, "\n".join(faults)


def _placed(use: ToolUse, shop: Path) -> ToolUse:
    given = {
        key: value.replace("{shop}", str(shop)) if isinstance(value, str) else value
        for key, value in use.input.items()
    }
    return ToolUse(name=use.name, input=given)


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.parametrize("name", [harness(name) for name in SUBJECTS if name not in {"codex", "opencode"}])
async def test_a_worker_killed_as_the_file_changes_leaves_nothing_unsaid(name: str, tmp_path: Path) -> None:
    subject, _ = SUBJECTS[name]
    edit = subject.write("note.txt", TEXT)
    assert edit is not None
    async with staged(
        subject, tmp_path, {"go": [Step(text="I write.", tools=(edit,)), *says("Done.")]}
    ) as stage:
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(session="s")
        file = stage.shop / "note.txt"
        await until(file.exists)
        victim.kill()
        await victim.death()
        left = file.read_text()
        stage.forget_home()
        assert str(await stage.finish(turn)) == "Done."
        (intent,) = [one for one in await stage.of_kind(CallIntent) if one.kind == "tool"]
        (outcome,) = [one for one in await stage.of_kind(CallOutcome) if one.call == intent.call]
        assert outcome.status == ("ok" if left == TEXT else "in_doubt"), (
            f"{len(left)} characters were written"
        )
        assert file.read_text() == left
        await stage.kept()


# Short names: the paths of sockets are below their directories.
@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.parametrize("name", [harness(name) for name in ("claude-code", "codex")])
async def test_boxed(name: str, tmp_path: Path) -> None:
    """An edit whose outcome was lost with the worker, in a sandbox that goes on: it is asked, from its own side."""
    subject = SUBJECTS[name][0]
    edit = subject.write("/workspace/note.txt" if name == "claude-code" else "note.txt", OLD)
    assert edit is not None
    async with staged(
        subject, tmp_path, {"go": [Step(text="I write.", tools=(edit,)), *says("Done.")]}
    ) as stage:
        stage.workspace = sandbox(idle_s=60, allow=["example.com"])
        turn = await stage.send(prompt("go"))
        victim = await stage.victim(Spot(Point.OUTCOME_QUEUED, "verify"), session="s")
        await victim.death()  # and no more: its home is the sandbox's too, which goes on
        assert str(await stage.finish(turn)) == "Done."
        (verdict,) = await stage.of_kind(Verdict)
        assert verdict.verdict == "done"
        assert "found in the files" in stage.last_body().decode()


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.harness(harness="claude-code", turns=2)
async def test_anew(tmp_path: Path) -> None:
    """An edit and a command, each cut off in a sandbox that reaches a host and is then lost."""
    subject = SUBJECTS["claude-code"][0]
    edit, command = subject.write("/workspace/note.txt", OLD), subject.shell("touch gone; sleep 60")
    assert edit is not None
    assert command is not None
    script = {
        "go": [Step(text="I write.", tools=(edit,)), *says("Done.")],
        "next": [Step(text="I send.", tools=(command,)), *says("Sent.")],
    }
    async with staged(subject, tmp_path, script) as stage:
        stage.workspace = sandbox(idle_s=0, allow=["example.com"])
        turn = await stage.send(prompt("go"))
        await stage.killed_at(Spot(Point.OUTCOME_QUEUED, "verify"))
        assert str(await stage.finish(turn)) == "Done."
        assert await stage.of_kind(Verdict) == []
        assert UNDONE in stage.last_body().decode(), (
            "it reaches nothing but files, and these are as they were"
        )
        turn = await stage.send(prompt("next"))
        victim = await stage.victim(session="s")
        await seen(turn, lambda event: event.kind == "call.started")
        victim.kill()
        await victim.death()
        assert str(await stage.finish(turn)) == "Sent."
        told = stage.last_body().decode()
        assert IN_DOUBT in told
        assert FILES_BACK in told, "what it sent to the host may stand"


@pytest.mark.timeout(180)
@pytest.mark.full
@pytest.mark.parametrize("name", [harness("claude-code"), harness("opencode")])
async def test_an_edit_that_was_cut_off_before_it_was_made_is_made_by_the_program(
    name: str, tmp_path: Path
) -> None:
    """Some edit only what they have read, and must remember that they have."""
    subject, edits = SUBJECTS[name]
    (one,) = [one for one in edits if one.path == "once.txt"]
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "once.txt").write_text(OLD)
    look = ToolUse(name="Read", input={"file_path": str(shop / "once.txt")})
    steps = [
        *([Step(text="I look.", tools=(look,))] if name == "claude-code" else []),
        Step(text="I edit.", tools=(_placed(one.use, shop),)),
        *says("Done."),
    ]
    async with staged(subject, tmp_path, {"go": steps}) as stage:
        turn = await stage.send(prompt("go"))
        await stage.killed_at(Spot(Point.AFTER_START, "verify"))
        assert (shop / "once.txt").read_text() == OLD
        assert str(await stage.finish(turn)) == "Done."
        (verdict,) = await stage.of_kind(Verdict)
        assert verdict.verdict == "not_done"
        witness = (await stage.of_kind(CallStarted))[-1].witness.value()
        assert (shop / "once.txt").read_text() != OLD, "it was not made"
        assert content_hash((shop / "once.txt").read_bytes()).hex() == witness["files"][0]["after"]
        (outcome,) = [one for one in await stage.of_kind(CallOutcome) if one.call == verdict.call]
        assert outcome.status == "ok"
        await stage.kept()
