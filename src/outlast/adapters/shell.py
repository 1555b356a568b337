"""Which shell commands only look, and of which it can be found out afterwards what they did.

`judge` gives a command the replay policy `safe` only if two readings of it agree — the tree of a real grammar
(tree-sitter-bash) and a scanner of our own — on the same words, if everything that stands between the words is known,
and if every command of it is in the table of `outlast.adapters.shell_table` with options that are known
to do no more than read. It is `verify` if beside such commands it holds some that may run twice, and at least one of
those that can be asked about (`outlast.adapters.shell_acts`). Everything else is `never`.

What a command reads is no concern of this module, nor what the user's own configuration makes of a name (an alias
in a shell profile, a file system monitor in a git configuration): that is the user's environment, as it was before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from outlast.adapters.shell_acts import Act, is_idempotent, read_acts
from outlast.adapters.shell_table import only_reads
from outlast.adapters.shell_words import Operator, Token, Unreadable, Word, tokens

_LANGUAGE: Final = Language(tree_sitter_bash.language())

_STRUCTURE: Final = frozenset(
    {
        "program",
        "list",
        "pipeline",
        "negated_command",
        "redirected_statement",
        "command",
        "command_name",
        "file_redirect",
    }
)
_WORDS: Final = frozenset(
    {"word", "number", "string", "raw_string", "concatenation", "file_descriptor", "comment"}
)
_JOINS: Final = frozenset({";", "\n", "&&", "||", "|"})
_REDIRECTS: Final = frozenset({">", ">>", ">&", "&>", "<"})

_HARMLESS_ASSIGNMENTS: Final = ("LC_ALL=", "LANG=", "TZ=", "NO_COLOR=", "COLUMNS=")
_KEEPS_NOTHING: Final = "/dev/null"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What may be done about a shell command whose result was lost."""

    policy: Literal["safe", "verify", "never"]
    why: str = ""
    """Of `never`: what stood against anything else."""
    acts: Sequence[Act] = ()
    """Of `verify`: what can be asked about, in order. The rest of the command may run twice."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A simple command, and what stands before it: an operator, or nothing."""

    join: str
    words: Sequence[Word]
    negated: bool = False


def judge(command: str) -> Judgement:
    """The replay policy of `command` as the shell tool of a coding agent would run it.

    `safe` promises that running it again changes no file, no process and nothing on another machine; `verify` that
    nothing of it but its `acts` does so.
    """
    try:
        read = tokens(command)
        _agree(command, read)
        parts = list(_parts(read))
        strange = next((part for part in parts if not only_reads(part.words)), None)
        if strange is None:
            return Judgement("safe")
        acts = list(_acts(command, parts))
    except Unreadable as why:
        return Judgement("never", str(why))
    return Judgement("verify", acts=acts) if acts else Judgement("never", _not_known(strange, "only read"))


def _not_known(part: _Part, what: str) -> str:
    return f"{' '.join(word.text for word in part.words[:2])!r} is not known to {what}"


def _acts(command: str, parts: Sequence[_Part]) -> Iterator[Act]:
    """What can be asked about of a command; nothing where the rest may run twice and that is all.

    Raises:
        Unreadable: there is more to it, or it stands where nobody can say whether it ran.
    """
    entered: list[str] = []
    twice: list[str] = []
    follows = False
    for part, after in zip(parts, [*parts[1:], _Part("", ())], strict=True):
        if part.join not in {"&&", "|"}:
            follows = False
        text = command[part.words[0].start : part.words[-1].end]
        if part.words[0].text == "cd":
            _enter(part, after, entered)
        elif is_idempotent(part.words):
            twice.append(text)
        elif not only_reads(part.words):
            first, *more = _acts_of(part, text, entered)
            yield replace(first, follows=follows, before=tuple(twice))
            yield from more
            follows, twice = after.join == "&&", []


def _acts_of(part: _Part, text: str, entered: Sequence[str]) -> Sequence[Act]:
    acts = read_acts(part.words, text, entered)
    if not acts:
        raise Unreadable(_not_known(part, "only read, nor to be of those that can be asked about"))
    if part.negated or part.join in {"|", "||"}:
        raise Unreadable(f"{text!r} behind {part.join or '!'!r}")
    return acts


def _enter(part: _Part, after: _Part, entered: list[str]) -> None:
    """Follow a `cd`; what comes behind it is looked for where it leads."""
    match part.words:
        case [_, where] if where.exact and not where.text.startswith("-"):
            entered.append(where.text)
        case _:
            raise Unreadable("a change to a directory that is not named")
    if part.join in {"|", "||"} or after.join in {"|", "||"}:
        raise Unreadable("a change of directory that may not happen")


def _agree(command: str, read: Sequence[Token]) -> None:
    """Both readings see the same words in the same places, and the tree holds nothing that we do not know."""
    source = command.encode()
    tree = Parser(_LANGUAGE).parse(source)
    if tree.root_node.has_error:
        raise Unreadable("no valid shell command")
    theirs = [(leaf.start_byte, leaf.end_byte) for leaf in _leaves(tree.root_node)]
    ours = [
        (len(command[: token.start].encode()), len(command[: token.end].encode()))
        for token in read
        if not (isinstance(token, Operator) and token.text in {"\n", ";"})
    ]
    # Line ends and semicolons are nodes in some places and not in others; the commands between them are compared.
    if theirs != ours:
        raise Unreadable("two readings of it differ")


def _leaves(node: Node) -> Iterator[Node]:
    if node.type in _WORDS:
        _check_word(node)
        yield node
    elif not node.is_named:
        if node.type not in {";", "\n", "&&", "||", "|", "!", ">", ">>", ">&", "&>", "<"}:
            raise Unreadable(f"{node.type!r}")
        if node.type not in {";", "\n"}:
            yield node
    elif node.type == "variable_assignment":
        yield node
    elif node.type in _STRUCTURE:
        for child in node.children:
            yield from _leaves(child)
    else:
        raise Unreadable(node.type.replace("_", " "))


def _check_word(node: Node) -> None:
    for child in node.children:
        if child.type == "command_substitution" and node.type == "string":
            _check_many_lines(child)
            continue
        if child.is_named and child.type not in _WORDS | {
            "string_content",
            "simple_expansion",
            "expansion",
            "variable_name",
        }:
            raise Unreadable(child.type.replace("_", " "))
        _check_word(child)


_MANY_LINES: Final[Sequence[tuple[str, Sequence[str]]]] = [
    ("$(", []),
    ("redirected_statement", ["command", "heredoc_redirect"]),
    (")", []),
]


def _check_many_lines(node: Node) -> None:
    """A substitution is a text that `cat` reads, and nothing else."""
    shape = [(child.type, [inner.type for inner in child.children]) for child in node.children]
    if shape == _MANY_LINES:
        command, text = node.children[1].children
        inner = [child.type for child in text.children if child.type != "heredoc_body"]
        plain = not any(part.is_named for child in text.children for part in child.children)
        if command.text == b"cat" and inner == ["<<", "heredoc_start", "heredoc_end"] and plain:
            return
    raise Unreadable("a substitution")


def _parts(read: Sequence[Token]) -> Iterator[_Part]:
    """The simple commands, redirections taken out once they are known to be harmless."""
    words: list[Word] = []
    join = ""
    rest = iter(read)
    for token in rest:
        if isinstance(token, Word):
            if not token.comment:
                words.append(token)
        elif token.text in _JOINS:
            yield from _stripped(join, words)
            if words or token.text != "\n":  # a line may end behind an operator
                join = token.text
            words = []
        elif token.text in _REDIRECTS:
            _drop_descriptor(words, token)
            _check_redirect(token.text, next(rest, None))
        else:
            raise Unreadable(f"{token.text!r}")
    yield from _stripped(join, words)


def _drop_descriptor(words: list[Word], redirect: Operator) -> None:
    """`2>` reads as the word 2 and an operator; with nothing between them and no quotes it is a descriptor."""
    if not words or words[-1].end != redirect.start:
        return
    last = words[-1]
    if (
        last.text.isascii() and last.text.isdigit() and last.end - last.start == len(last.text)
    ):  # "2"> is a word
        words.pop()


def _check_redirect(operator: str, target: Token | None) -> None:
    if not isinstance(target, Word) or target.wild or target.comment:
        raise Unreadable("a redirection")
    if operator == ">&":
        harmless = target.text in {"1", "2", _KEEPS_NOTHING}
    elif operator == "<":
        harmless = not target.text.startswith(("/dev/", "/proc/")) or target.text == _KEEPS_NOTHING
    else:
        harmless = target.text == _KEEPS_NOTHING
    if not harmless:
        raise Unreadable(f"a redirection to {target.text}")


def _stripped(join: str, words: Sequence[Word]) -> Iterator[_Part]:
    """Without a leading `!` and without assignments that change only how a program prints; nothing for no words."""
    if not words:
        return
    first = 1 if words[0].text == "!" else 0
    while (
        first < len(words) and words[first].text.startswith(_HARMLESS_ASSIGNMENTS) and not words[first].wild
    ):
        first += 1
    if first == len(words):
        raise Unreadable("no command")
    yield _Part(join, words[first:], words[0].text == "!")
