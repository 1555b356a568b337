"""Whatever a command does to the files of the virtual shell, its changes are all that is needed to have them again."""

from typing import TypeAlias

from hypothesis import example, given
from hypothesis import strategies as st

from outlast.workspaces.virtual.interpreter import Interpreter
from outlast.workspaces.virtual.wire import Answer, Ask, Done, Load, Piece, Run, Wake

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "/tmp/a", "/tmp/b"])
CHANGES = st.one_of(
    st.builds("echo {} > {}".format, st.sampled_from(["x", "y", "longer"]), NAMES),
    st.builds("echo more >> {}".format, NAMES),
    st.builds("rm -rf {}".format, NAMES),
    st.builds("mkdir -p {}".format, NAMES),
    st.builds("mv {} {}".format, NAMES, NAMES),
    st.builds("cp -rp {} {}".format, NAMES, NAMES),
    st.builds("ln -s {} {}".format, NAMES, NAMES),
    st.builds("ln -sf {} {}".format, NAMES, NAMES),
    st.builds("mv a t; mv b a; mv t b".format),
    st.builds("chmod {} {}".format, st.sampled_from(["600", "755"]), NAMES),
    st.builds("touch -d '2001-02-03 04:05:0{}' {}".format, st.integers(0, 2), NAMES),
    st.builds("touch -r {} {}".format, NAMES, NAMES),
    st.builds("mkfifo {}".format, NAMES),
    st.just("rm -rf /workspace"),
)
Tree: TypeAlias = dict[str, Piece]


def answers(shell: Interpreter, ask: Ask) -> tuple[Done, list[Piece]]:
    said: list[Answer] = list(shell.answer(ask))
    assert isinstance(said[-1], Done)
    return said[-1], [piece for piece in said if isinstance(piece, Piece)]


def tree_of(shell: Interpreter) -> Tree:
    """All that is in it, looked at anew."""
    found: Tree = {}
    for path, look in shell.tree.sight.walk()[0].items():
        found[path] = shell.tree.filled(shell.tree.piece(path, look))
    return found


def told(tree: Tree) -> dict[str, object]:
    """What must be the same: the time of a link is that of its making, which nothing tells."""
    return {
        path: piece if piece.kind != "link" else (piece.kind, piece.target) for path, piece in tree.items()
    }


@given(st.lists(st.lists(CHANGES, min_size=1, max_size=4), max_size=6))
@example([["touch -d '2001-02-03 04:05:01' a"], ["echo more >> a", "touch -d '2001-02-03 04:05:01' a"]])
def test_changes_tell_all_that_is_new(commands: list[list[str]]) -> None:
    shell = Interpreter(lambda _: None)
    kept: Tree = {}
    for command in commands:
        done, pieces = answers(shell, Run("; ".join(command), "", {}, 10.0))
        for path in done.gone:
            del kept[path]
        kept.update({piece.path: piece for piece in pieces})
        assert told(kept) == told(tree_of(shell)), command


@given(st.lists(CHANGES, max_size=12))
def test_what_was_told_loads_into_another_shell_as_it_was(changes: list[str]) -> None:
    shell = Interpreter(lambda _: None)
    answers(shell, Run("; ".join(changes), "", {}, 10.0))
    before = tree_of(shell)
    other = Interpreter(lambda _: None)
    pieces = [Piece(p.path, p.kind, p.mode, p.mtime_ns, p.data, p.target) for _, p in sorted(before.items())]
    answers(other, Load(pieces))
    answers(other, Wake(Interpreter(lambda _: None).state))
    assert told(tree_of(other)) == told(before)
    done, pieces = answers(other, Run(":", "", {}, 10.0))
    assert not pieces
    assert not done.gone
