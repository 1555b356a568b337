"""A shell command as words and operators, or no reading at all.

This is the half of `outlast.adapters.shell` that reads the text itself. It knows the part of the shell
language in which the words of a command stand in its text, and refuses everything in which they do not: substitutions,
parameters, brace expansion, here-documents, continued lines, control characters.

One substitution is known, since coding agents write the messages of their commits with it: `"$(cat <<'EOF'`, lines of
text, a line that is `EOF`, and `)"`. Nothing in those lines means anything to the shell.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

MAX_LENGTH: Final = 20_000
MAX_TOKENS: Final = 300
"""The tree of a longer command nests deeper than is worth reading."""

_OPERATORS: Final = (
    "&>>",
    "<<<",
    "&&",
    "||",
    "|&",
    ";;",
    ">>",
    "<<",
    "<&",
    ">&",
    "&>",
    ">|",
    "<>",
    ";",
    "&",
    "|",
    "<",
    ">",
    "(",
    ")",
    "\n",
)
_GLOB: Final = frozenset("*?[]")
_REFUSED_BARE: Final = frozenset("$`{}")
_AFTER_LITERAL_DOLLAR: Final = frozenset('"|/ .,)')
"""Before one of these a dollar sign in double quotes stands for itself."""
_KNOWN_PARAMETERS: Final = ("HOME", "PWD")
"""Parameters that may stand in double quotes: absolute paths, so that no option can come out of them."""
_TEXT: Final = re.compile(r"""\$\(cat <<[ ]?(['"]?)([A-Za-z_][A-Za-z0-9_]*)\1\n""")
"""What begins a text of many lines; with quotes around its last line, all of it stands for itself."""
_TEXT_END: Final = re.compile(r"[ \n]*\)")


class Unreadable(Exception):
    """The command holds something whose words are not in its text."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word: what the shell makes of it, and where it stands."""

    start: int
    end: int
    text: str
    """Quotes taken away. Of a word with `wild` the pattern."""
    wild: bool = False
    """It holds a pattern that the shell replaces with file names."""
    wild_start: bool = False
    """The pattern begins where an option could come out of it: at the start, or after a dash."""
    comment: bool = False
    exact: bool = True
    """`text` is what the program is given, to the letter: no pattern, no parameter, no tilde."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator or line end."""

    start: int
    end: int
    text: str


Token: TypeAlias = Word | Operator


def tokens(command: str) -> Sequence[Token]:
    """The words and operators of `command` in order.

    Raises:
        Unreadable: something in it is beyond this reading.
    """
    _refuse_unseen(command)
    read = list(_scan(command))
    if len(read) > MAX_TOKENS:
        raise Unreadable("too long")
    return read


def _refuse_unseen(command: str) -> None:
    if len(command) > MAX_LENGTH:
        raise Unreadable("too long")
    if "\\\n" in command:
        raise Unreadable("a continued line")
    if any((ord(c) < 32 and c not in "\n\t") or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in command):
        raise Unreadable("a control character")


def _scan(command: str) -> Iterator[Token]:
    at = 0
    fresh_line = True
    while at < len(command):
        if command[at] in " \t":
            at += 1
            continue
        if command[at] == "#":
            end = _comment_end(command, at, fresh_line=fresh_line)
            yield Word(at, end, command[at:end], comment=True)
            at = end
            continue
        token = _operator(command, at) or _word(command, at)
        fresh_line = isinstance(token, Operator) and token.text == "\n"
        yield token
        at = token.end


def _comment_end(command: str, at: int, *, fresh_line: bool) -> int:
    # Behind a command a hash may also be part of a word; at the start of a line it cannot.
    if not fresh_line:
        raise Unreadable("a comment behind a command")
    end = command.find("\n", at)
    return len(command) if end < 0 else end


def _operator(command: str, at: int) -> Operator | None:
    for text in _OPERATORS:
        if command.startswith(text, at):
            return Operator(at, at + len(text), text)
    return None


def _word(command: str, start: int) -> Word:
    text: list[str] = []
    wild_at: int | None = None
    exact = True
    at = start
    while at < len(command) and command[at] not in " \t" and _operator(command, at) is None:
        c = command[at]
        if c in _GLOB and wild_at is None:
            wild_at = len("".join(text))
        piece, at, as_written = _piece(command, at)
        exact = exact and as_written and c != "~"
        text.append(piece)
    whole = "".join(text)
    return Word(
        start,
        at,
        whole,
        wild=wild_at is not None,
        wild_start=wild_at is not None and (wild_at == 0 or whole[0] == "-"),
        exact=exact and wild_at is None,
    )


def _piece(command: str, at: int) -> tuple[str, int, bool]:
    """The next piece of a word: what it stands for, where it ends, and whether that is so to the letter."""
    c = command[at]
    match c:
        case "'":
            end = command.find("'", at + 1)
            if end < 0:
                raise Unreadable("an open quote")
            return command[at + 1 : end], end + 1, True
        case '"':
            return _double(command, at + 1)
        case "\\":
            if at + 1 >= len(command):
                raise Unreadable("a backslash at the end")
            return command[at + 1], at + 2, True
        case _:
            if c in _REFUSED_BARE or not c.isascii():
                raise Unreadable(f"{c!r} outside quotes")
            return c, at + 1, True


def _double(command: str, at: int) -> tuple[str, int, bool]:
    text: list[str] = []
    exact = True
    while at < len(command):
        c = command[at]
        if c == '"':
            return "".join(text), at + 1, exact
        if c == "`":
            raise Unreadable("a substitution")
        if c == "\\" and command[at + 1 : at + 2] in set('$`"\\'):
            text.append(command[at + 1])
            at += 2
        elif command.startswith("$(", at):
            piece, at = _many_lines(command, at)
            text.append(piece)
        elif c == "$":
            piece, at = _parameter(command, at)
            exact = exact and piece == "$"
            text.append(piece)
        else:
            text.append(c)
            at += 1
    raise Unreadable("an open quote")


def _parameter(command: str, at: int) -> tuple[str, int]:
    following = command[at + 1 : at + 2]
    if following and following in _AFTER_LITERAL_DOLLAR:
        return "$", at + 1
    for name in _KNOWN_PARAMETERS:
        for form in (f"${name}", f"${{{name}}}"):
            after = command[at + len(form) : at + len(form) + 1]
            if command.startswith(form, at) and not (after.isalnum() or after in {"_", "["}):
                return f"/{name}", at + len(form)
    raise Unreadable("a parameter")


def _many_lines(command: str, at: int) -> tuple[str, int]:
    """The text of a here-document that only `cat` reads, without the line ends behind it, as a substitution has it."""
    begins = _TEXT.match(command, at)
    if begins is None:
        raise Unreadable("a substitution")
    quote, last = begins[1], begins[2]
    ends = re.compile(rf"^{last}$", re.MULTILINE).search(command, begins.end())
    closed = None if ends is None else _TEXT_END.match(command, ends.end())
    if ends is None or closed is None:
        raise Unreadable("an open here-document")
    text = command[begins.end() : ends.start()]
    if not quote and not {"$", "`", "\\"}.isdisjoint(text):
        raise Unreadable("a substitution")
    return text.rstrip("\n"), closed.end()
