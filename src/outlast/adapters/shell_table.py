"""The commands that only read, and the options that would make them do more.

A command is in one of three tables: `_ANY`, which no option can make write; `_BUT`, with the options that would; and
`_OWN`, with a function that looks at its arguments. What is in none of them is not known to only read.

Sources: the manuals of GNU coreutils 9.4, findutils 4.9, grep 3.11, sed 4.9, bash 5.2, git 2.47, ripgrep 14, gh 2.60.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from outlast.adapters.shell_words import Word

Arguments: TypeAlias = Sequence[str]
Reads: TypeAlias = Callable[[Arguments], bool]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ANY: Final = _words(
    """
    : arch b2sum base32 base64 basename cat cd cksum cmp column comm cut df diff dirname du echo egrep expand expr
    factor false fgrep fmt fold free getconf grep groups head hexdump id join locale logname ls lscpu md5sum nl nproc
    numfmt od paste pgrep pr printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum
    sleep stat strings sum tac tail tr true tty type uname unexpand uptime wc which who whoami
    """
)

_BUT: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    # command: (letters that must not stand in a group of short options, long options that must not stand)
    "sort": ("oT", ("output", "temporary-directory", "compress-program")),
    "shuf": ("o", ("output",)),
    "tree": ("oR", ("output",)),
    "file": ("C", ("compile",)),
    "jq": ("i", ("in-place",)),
    "iconv": ("o", ("output",)),
    "rg": ("", ("pre", "hostname-bin")),
}

# Not here, since asking for the version may run or fetch what a project's configuration names: cargo, go, npx, pnpm,
# pytest, rustc, yarn.
_VERSIONED: Final = _words(
    """
    bash clang cmake curl docker g++ gcc gh git java javac make mypy node npm perl pip pip3 python python3 ruby ruff uv
    """
)

_TAKES_PATTERNS: Final = frozenset({*_BUT, "find", "git"})
"""For these a file name is an operand and nothing else: a second one means no more than the first."""


def only_reads(words: Sequence[Word]) -> bool:
    """Whether the command of these words, name first, is known to change nothing whatever it finds."""
    name, rest = words[0], words[1:]
    # Reading from a device may do something to it.
    if name.wild or any(word.text.startswith("/dev/") and word.text != "/dev/null" for word in rest):
        return False
    directory, slash, last = name.text.rpartition("/")
    program = last if not slash or directory in {"/bin", "/usr/bin"} else name.text
    return program in _ANY or _reads(program, rest)


def _reads(program: str, words: Sequence[Word]) -> bool:
    """Of a command whose arguments matter: a pattern must not turn into an option, nor, as a rule, stand at all."""
    if any(word.wild_start or (word.wild and program not in _TAKES_PATTERNS) for word in words):
        return False
    arguments = [word.text for word in words]
    if program in _VERSIONED and arguments == ["--version"]:
        return True
    if program in _BUT:
        letters, longs = _BUT[program]
        return not any(_forbidden(text, letters, longs) for text in arguments)
    own = _OWN.get(program)
    return own is not None and own(arguments)


def _forbidden(argument: str, letters: str, longs: Sequence[str]) -> bool:
    """Whether `argument` may be one of these options; GNU programs take any beginning of a long one."""
    if argument.startswith("--"):
        given = argument[2:].partition("=")[0]
        return given != "" and any(long.startswith(given) or given.startswith(long) for long in longs)
    return argument.startswith("-") and any(letter in argument for letter in letters)


def _bare(arguments: Arguments) -> bool:
    return not arguments


def _command(arguments: Arguments) -> bool:
    return len(arguments) >= 1 and arguments[0] in {"-v", "-V"}


def _printf(arguments: Arguments) -> bool:
    # -v and %n assign to a variable, and the index of an array element may hold a command.
    return not any(
        "v" in text if text.startswith("-") else re.search(r"%[^a-zA-Z%]*[hlLqjzt]*n", text)
        for text in arguments
    )


def _uniq(arguments: Arguments) -> bool:
    # The second operand is the file it writes.
    return sum(not text.startswith("-") or text == "-" for text in arguments) <= 1


_DATE: Final = _words("-u -R -I --utc --universal --iso-8601 --rfc-email -Iseconds -Iminutes -Ins -Ihours")


def _date(arguments: Arguments) -> bool:
    rest = list(arguments)
    while rest:
        text = rest.pop(0)
        if text in {"-d", "--date"} and rest:
            rest.pop(0)
        elif not (text in _DATE or text.startswith(("+", "--date=", "--iso-8601=", "--rfc-3339="))):
            return False
    return True


_SED_OPTIONS: Final = _words(
    "-n -E -r -nE -nr -En -rn -z -s -u --quiet --silent --regexp-extended --null-data --separate"
)
_ADDRESS: Final = r"(?:\d+|\$|/[^/\\\n]*/)"
_SED_COMMAND: Final = rf"(?:{_ADDRESS}(?:,{_ADDRESS})?)?[pdq=]"
_SED_REPLACE: Final = r"s([/|#,@!])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiI0-9]*"
_SED_SCRIPT: Final = re.compile(rf"(?:{_SED_COMMAND}(?: *; *{_SED_COMMAND})*|{_SED_REPLACE})\Z")


def _sed(arguments: Arguments) -> bool:
    """Printing, deleting from the stream, replacing in the stream: no `w`, no `e`, no file in place."""
    scripts: list[str] = []
    rest = list(arguments)
    while rest:
        text = rest.pop(0)
        if text in _SED_OPTIONS:
            continue
        if text in {"-e", "-ne", "--expression"} and rest:
            scripts.append(rest.pop(0))
        elif text.startswith("-"):
            return False
        elif not scripts:
            scripts.append(text)
    return bool(scripts) and all(_SED_SCRIPT.match(script) for script in scripts)


_FIND: Final = _words(
    """
    -H -L -P -a -amin -and -anewer -atime -cmin -cnewer -ctime -daystart -depth -empty -executable -false -follow
    -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname -ls -maxdepth -mindepth -mmin
    -mount -mtime -name -newer -newermt -nogroup -noleaf -not -nouser -o -or -path -perm -print -print0 -printf -prune
    -quit -readable -regex -regextype -samefile -size -true -type -uid -used -user -wholename -writable -xdev -xtype
    """
)


def _find(arguments: Arguments) -> bool:
    # -mtime -1 and -size -4k: a number may stand where a test may.
    return all(
        text in _FIND or re.match(r"-\d", text) is not None or not text.startswith("-") for text in arguments
    )


_GIT_READS: Final = _words(
    """
    blame cat-file check-ignore count-objects describe diff diff-files diff-index diff-tree for-each-ref grep log
    ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show show-ref status whatchanged
    """
)
_GIT_FORBIDDEN: Final = ("output", "ext-diff", "textconv", "filters", "open-files-in-pager", "exec")
_GIT_LISTS: Final[Mapping[str, frozenset[str]]] = {
    "branch": _words(
        """
        -a -r -v -vv -av -avv --list --all --remotes --verbose --show-current --contains --merged --no-merged --no-color
        """
    ),
    "tag": _words("-l --list -n --contains --merged --no-merged --points-at"),
}
_GIT_LISTING: Final = _words("-l --list --contains --merged --no-merged --points-at")
_GIT_WORDS: Final[Mapping[tuple[str, ...], bool]] = {
    # the words after `git`, and whether operands may follow
    ("remote",): False,
    ("remote", "-v"): False,
    ("remote", "--verbose"): False,
    ("remote", "get-url"): True,
    ("stash", "list"): False,
    ("stash", "show"): True,
    ("reflog",): False,
    ("reflog", "show"): True,
    ("worktree", "list"): False,
    ("config", "--list"): False,
    ("config", "-l"): False,
    ("config", "--get"): True,
    ("config", "--get-all"): True,
    ("config", "--get-regexp"): True,
}


def _git(arguments: Arguments) -> bool:
    rest = list(arguments)
    while rest and rest[0] in {"--no-pager", "--no-optional-locks", "-C"}:
        taken = 2 if rest[0] == "-C" else 1
        rest = rest[taken:]
    if not rest:
        return False
    sub, given = rest[0], rest[1:]
    if sub in _GIT_READS:
        return not any(_forbidden(text, "O" if sub == "grep" else "", _GIT_FORBIDDEN) for text in given)
    if sub in _GIT_LISTS:
        return _git_lists(given, _GIT_LISTS[sub])
    return _git_words(rest)


def _git_lists(given: Arguments, known: frozenset[str]) -> bool:
    """`git branch NAME` makes one: without an option that lists, no operand may stand."""
    options = [text for text in given if text.startswith("-")]
    if not all(text in known or text.startswith(("--sort=", "--format=")) for text in options):
        return False
    return len(options) == len(given) or not _GIT_LISTING.isdisjoint(options)


def _git_words(rest: Arguments) -> bool:
    for length in (2, 1):
        operands = _GIT_WORDS.get(tuple(rest[:length]))
        if operands is not None and len(rest) >= length:
            more = rest[length:]
            return not more or (operands and not any(text.startswith("-") for text in more))
    return False


_GH_READS: Final[Mapping[str, frozenset[str]]] = {
    "pr": _words("view list diff status checks"),
    "issue": _words("view list status"),
    "run": _words("view list"),
    "release": _words("view list"),
    "repo": _words("view list"),
    "auth": _words("status"),
}


def _gh(arguments: Arguments) -> bool:
    if len(arguments) < 2 or arguments[1] not in _GH_READS.get(arguments[0], frozenset[str]()):
        return False
    return not any(_forbidden(text, "w", ("web",)) for text in arguments[2:])


def _tee(arguments: Arguments) -> bool:
    return all(text in {"/dev/null", "-a", "--append"} for text in arguments)


_OWN: Final[Mapping[str, Reads]] = {
    "command": _command,
    "date": _date,
    "env": _bare,
    "find": _find,
    "gh": _gh,
    "git": _git,
    "hostname": _bare,
    "printf": _printf,
    "sed": _sed,
    "tee": _tee,
    "uniq": _uniq,
}

PROGRAMS: Final[Mapping[str, frozenset[str]]] = {
    "whatever the options": _ANY,
    "but for some options": frozenset(_BUT),
    "by their arguments": frozenset(_OWN),
}
"""Every program that may be `safe`, by what decides it."""
