"""No command that changes something is ever `safe`, and whatever is `safe` leaves a real directory as it was."""

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.adapters.shell import judge
from outlast.adapters.shell_table import PROGRAMS
from outlast.ids import digest

_EXAMPLES = settings().max_examples
MANY = settings(max_examples=_EXAMPLES * 10)
"""Reading costs a fraction of a millisecond."""

MUTATIONS: Sequence[Sequence[str]] = [
    ["rm", "-rf", "kept"],
    ["touch", "made"],
    ["mv", "kept", "gone"],
    ["cp", "kept", "made"],
    ["mkdir", "made"],
    ["ln", "-s", "kept", "made"],
    ["chmod", "600", "kept"],
    ["truncate", "-s0", "kept"],
    ["dd", "of=kept"],
    ["tee", "kept"],
    ["sed", "-i", "s/a/b/", "kept"],
    ["sed", "-n", "w made", "kept"],
    ["sed", "s/a/b/w made", "kept"],
    ["sort", "-o", "kept", "kept"],
    ["sort", "kept", "--outpu=made"],
    ["uniq", "kept", "made"],
    ["find", ".", "-delete"],
    ["find", ".", "-name", "kept", "-exec", "rm", "{}", ";"],
    ["find", ".", "-fprint", "made"],
    ["git", "commit", "--allow-empty", "-em", "x"],
    ["git", "branch", "made"],
    ["git", "tag", "made"],
    ["git", "-c", "alias.x=!touch made", "x"],
    ["git", "diff", "--output=made"],
    ["git", "config", "a.b", "c"],
    ["xargs", "rm"],
    ["env", "touch", "made"],
    ["command", "touch", "made"],
    ["sh", "-c", "touch made"],
    ["eval", "touch made"],
    ["awk", 'BEGIN{print > "made"}'],
    ["python3", "-c", "open('made','w')"],
    ["printf", "-v", "a[$(touch made)]", "x"],
    ["printf", "%n", "a[$(touch made)]"],
    ["date", "-s", "2020-01-01"],
    ["rg", "--pre", "./made", "x"],
    ["export", "PATH=."],
    ["unknown-program"],
    ["./kept"],
]
HARMLESS = [
    "ls -la",
    "cat kept",
    "git status --short",
    "grep -c a kept 2>/dev/null",
    "find . -name 'k*' -print",
    "echo done",
    "sed -n 1,2p kept",
    "true",
    "cd sub",
    "wc -l < kept",
]
GLUE = [";", "&&", "||", "|", "\n", " ; ", "\n\n", " && \n"]
SHAPES = [
    "{}",
    "! {}",
    "({})",
    "{{ {}; }}",
    "$({})",
    "`{}`",
    'echo "$({})"',
    "cat <({})",
    "if true; then {}; fi",
    "if {}; then true; fi",
    "for i in 1; do {}; done",
    "while {}; do break; done",
    "f() {{ {}; }}; f",
    "{} &",
    "time {}",
    "LC_ALL=C {}",
    "X=1 {}",
    "{} >/dev/null",
    ">/dev/null {}",
    "{} 2>&1",
    "{} < kept",
    "# note\n{}",
    "echo x\n#\n{}",
]


# Cached, since a strategy is dear to make and cheap to draw from again.
@cache
def _forms(c: str) -> st.SearchStrategy[str]:
    """Ways to write a character; now and then nothing follows it in quotes."""
    forms = [f"'{c}'"] if c != "'" else ['"\'"']
    if c not in '$`"\\':
        forms.append(f'"{c}"')
    if c.isalnum() or c in "-_./=,+:%":
        forms += [c] * 6
    if c != "\n":
        forms.append(f"\\{c}")
    return st.sampled_from([*forms * 15, *(f"{form}{empty}" for form in forms for empty in ("''", '""'))])


@cache
def quoted(word: str) -> st.SearchStrategy[str]:
    """The same word, written another way."""
    return st.tuples(*map(_forms, word)).map("".join)


@st.composite
def mutating(draw: st.DrawFn) -> str:
    """A command with a mutating part somewhere in it."""
    words = [draw(quoted(word)) for word in draw(st.sampled_from(MUTATIONS))]
    core = draw(st.sampled_from(SHAPES)).format(draw(st.sampled_from([" ", "  ", "\t"])).join(words))
    before = draw(st.lists(st.sampled_from(HARMLESS), max_size=3))
    after = draw(st.lists(st.sampled_from(HARMLESS), max_size=2))
    return _glued(draw, [*before, core, *after])


@st.composite
def redirecting(draw: st.DrawFn) -> str:
    """Harmless commands, one of which writes its output somewhere."""
    operator = draw(st.sampled_from([">", ">>", ">|", "&>", "&>>", ">&", "2>", "1>", "<>", "2>>"]))
    target = draw(quoted(draw(st.sampled_from(["made", "kept", "sub/x", "-", "/dev/nullx", "&made"]))))
    command = draw(st.sampled_from(["ls", "cat kept", "echo hi", "grep a kept"]))
    core = draw(
        st.sampled_from(
            ["{c} {o} {t}", "{c}{o}{t}", "{o}{t} {c}", "{c} >/dev/null {o} {t}", "{c} 2>&1 {o}{t}"]
        )
    )
    parts = [
        *draw(st.lists(st.sampled_from(HARMLESS), max_size=2)),
        core.format(c=command, o=operator, t=target),
    ]
    return _glued(draw, parts)


def _glued(draw: st.DrawFn, parts: Sequence[str]) -> str:
    text = parts[0]
    for part in parts[1:]:
        text += draw(st.sampled_from(GLUE)) + part
    return text


@MANY
@given(mutating())
def test_a_command_with_a_mutating_part_is_never_safe(command: str) -> None:
    assert judge(command).policy == "never"


@MANY
@given(redirecting())
def test_output_to_a_file_is_never_safe(command: str) -> None:
    assert judge(command).policy == "never"


def _whole_forms(word: str) -> Sequence[str]:
    """Ways to write a word that agents use; other ways may be beyond one of the two readings."""
    forms = [shlex.quote(word)]
    if "'" not in word:
        forms.append(f"'{word}'")
    if not set(word) & set('$`"\\'):
        forms.append(f'"{word}"')
    return forms


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Commands that can be asked about among others that may run twice, and where each was."""
    parts: list[str] = []
    places: list[str] = []
    where: list[str] = []
    for kind in draw(st.lists(st.sampled_from(["act", "act", "plain", "cd"]), min_size=1, max_size=5)):
        if kind == "cd":
            where.append(draw(st.sampled_from(["sub", "../x", "/srv"])))
            words = ["cd", where[-1]]
        elif kind == "act":
            words = draw(st.sampled_from(ACTS))
            places.append("/".join(where))
        else:
            words = draw(st.sampled_from(TWICE))
        parts.append(" ".join(draw(st.sampled_from(_whole_forms(word))) for word in words))
    text = parts[0]
    for part in parts[1:]:
        text += draw(st.sampled_from(["&&", " && ", ";", "\n", " ;\n"])) + part
    return text, places


ACTS: Sequence[Sequence[str]] = [
    ["git", "commit", "-m", "it's; rm -rf /"],
    ["git", "commit", "-qam", "$(touch made) `x` # | >"],
    ["git", "push"],
    ["git", "push", "-u", "origin", "HEAD"],
    ["git", "checkout", "-b", "feat"],
    ["gh", "pr", "create", "--title", "a && b", "--body", '"c"'],
]
TWICE: Sequence[Sequence[str]] = [["git", "add", "-A"], ["mkdir", "-p", "sub"], ["ls"], ["git", "status"]]


@MANY
@given(asked())
def test_what_can_be_asked_about_is_found_however_it_is_written(drawn: tuple[str, list[str]]) -> None:
    command, places = drawn
    judged = judge(command)
    assert ["/".join(act.entered) for act in judged.acts] == places
    assert judged.policy == "verify" if places else judged.policy != "verify"


@MANY
@given(asked(), mutating(), st.sampled_from([1, -1]), st.sampled_from(GLUE))
def test_what_can_be_asked_about_covers_for_nothing_else(
    drawn: tuple[str, list[str]], mutation: str, order: int, glue: str
) -> None:
    parts = [drawn[0], mutation]
    assert judge(glue.join(parts[::order])).policy == "never"


@MANY
@given(st.text(max_size=200))
def test_any_text_gets_an_answer(command: str) -> None:
    assert judge(command).policy in {"safe", "verify", "never"}


# ---------------------------------------------------------------- by running them

OPERANDS = [
    "kept",
    "sub",
    "sub/deep",
    ".",
    "made",
    "a=b",
    "+x",
    "12",
    "s/a/b/",
    "1,2p",
    "HEAD",
    "w made",
    "-",
    "*",
    "k*",
    "s*",
]
LONGS = [
    "output=made",
    "outp=made",
    "in-place",
    "all",
    "help",
    "compile",
    "version",
    "list",
    "set=2020-01-01",
    "stat",
    "name-only",
]


@st.composite
def looking(draw: st.DrawFn) -> str:
    """A command from the table with options that may or may not be harmless."""
    table = PROGRAMS[draw(st.sampled_from(sorted(PROGRAMS)))]
    name = draw(st.sampled_from(sorted(table - {"sleep", "cd", "gh"})))
    words = [name]
    if name == "git":
        words.append(
            draw(
                st.sampled_from(
                    ["status", "log", "diff", "branch", "tag", "stash", "show", "config", "reflog", "grep"]
                )
            )
        )
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 3))
        if kind == 0:
            words.append(
                "-" + draw(st.text("abcdehiklmnopqrstuvwxzCDEGHILNOPRSTUVXZ0123", min_size=1, max_size=2))
            )
        elif kind == 1:
            words.append("--" + draw(st.sampled_from(LONGS)))
        else:
            words.append(draw(st.sampled_from(OPERANDS)))
    tail = draw(st.sampled_from(["", "", " 2>/dev/null", " | head -3", " && ls", "; pwd"]))
    return " ".join(word if word.isascii() and " " not in word else f"'{word}'" for word in words) + tail


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shell")
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "kept").write_text("a\nb\na\n")
    (root / "sub" / "one").write_text("1\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=root, check=True, env=_environment(root))
    return root


def _environment(root: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(root), "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}


def _tree(root: Path) -> dict[str, tuple[int, str]]:
    return dict(_entries(root))


def _entries(root: Path) -> Iterator[tuple[str, tuple[int, str]]]:
    for path in sorted(root.rglob("*")):
        content = digest(_content(path)) if path.is_file() else ""
        yield str(path.relative_to(root)), (path.lstat().st_mode, content)


def _content(path: Path) -> bytes:
    """What a file says. Git's index also caches when it looked at files, which looking again may refresh."""
    if path.name != "index" or path.parent.name != ".git":
        return path.read_bytes()
    listed = ["git", "ls-files", "--stage", "-v"]
    root = path.parent.parent
    return subprocess.run(listed, cwd=root, env=_environment(root), capture_output=True, check=True).stdout


def _run(command: str, root: Path) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):  # `tail -f` looks for ever
        subprocess.run(
            ["bash", "--norc", "-c", command],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=3,
            check=False,
            env=_environment(root),
        )


@settings(max_examples=_EXAMPLES * 2)
@given(looking())
def test_what_is_safe_changes_no_file_when_it_runs(place: Path, command: str) -> None:
    if judge(command).policy != "safe":
        return
    before = _tree(place)
    _run(command, place)
    assert _tree(place) == before


SOUP = [
    "ls", "cat", "echo", "find", "sort", "sed", "git", "printf", "uniq", "rm", "touch", "kept", "made", "sub", ".",
    "-o", "-i", "-n", "-delete", "-exec", "-name", "1p", "s/a/b/", "w made", "status", "branch", "stash", "%n",
    "'", '"', "\\", " ", " ", " ", "\n", ";", "|", "&", "&&", ">", ">>", "<", "2", "$(", ")", "`", "#", "!", "{", "}",
    "*", "~", "/dev/null", "=", "LC_ALL=C", "é", "$HOME",
]  # fmt: skip


@MANY
@given(st.lists(st.sampled_from(SOUP), max_size=9).map("".join))
def test_what_is_safe_in_a_soup_of_shell_text_changes_no_file(place: Path, command: str) -> None:
    if judge(command).policy != "safe" or not command.strip():
        return
    before = _tree(place)
    _run(command, place)
    assert _tree(place) == before


def test_the_table_is_tried_against_programs_that_are_here() -> None:
    known = frozenset[str]().union(*PROGRAMS.values())
    assert {"ls", "cat", "find", "sort", "sed", "git", "uniq"} <= {
        name for name in known if shutil.which(name)
    }
