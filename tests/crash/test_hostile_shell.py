"""What may be given to the shell of `virtual()`: it ends in bounded time and memory, and says something."""

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.errors import WorkspaceError
from outlast.workspace import Command, Ran, Site
from outlast.workspaces.virtual import VirtualKind, virtual
from outlast.workspaces.virtual.child import STACK_BYTES
from tests.stays import stay_at, supervised

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]

GIVEN_S = 1.0
BOUND_S = GIVEN_S + 8.0
MEMORY = 512 * 1024 * 1024
BOUND_BYTES = MEMORY + STACK_BYTES + 100 * 1024 * 1024
MILLION = 'x=$(head -c 1000000 /dev/zero | tr "\\0" a)'

DEEP = {
    "a function calls itself": "f() { f; }; f",
    "an eval evaluates itself": 'f=\'eval "$f"\'; eval "$f"',
    "a file sources itself": "echo 'source /tmp/x' > /tmp/x; source /tmp/x",
    "a script runs itself": "echo 'bash /tmp/x' > /tmp/x; bash /tmp/x",
    "a trap fires itself": "trap 'kill -USR1 $$' USR1; kill -USR1 $$",
    "20,000 lists in a program of jq": f"jq -n '{'[' * 20_000}{']' * 20_000}'",
    "20,000 lists of JSON": 'p() { for i in 1 2; do printf "$1%.0s" {1..10000}; done; }; { p "["; p "]"; } | jq .',
    "50,000 parentheses in bc": f"echo '{'(' * 50_000}1{')' * 50_000}' | bc",
    "50,000 parentheses in arithmetic": f"echo $(({'(' * 50_000}1{')' * 50_000}))",
    "3,000 substitutions": f"echo {'$(' * 3_000}echo{')' * 3_000}",
    "3,000 conditions": "if true; then " * 3_000 + ":" + "; fi" * 3_000,
    "20,000 subshells": "(" * 20_000 + ":" + ")" * 20_000,
    "20,000 parentheses in a test": f"[[ {'( ' * 20_000}-n x{' )' * 20_000} ]]",
    "2,000 braces": f"echo {'{a,' * 2_000}b{'}' * 2_000}",
    "20,000 parentheses in awk": f"awk 'BEGIN {{ print {'(' * 20_000}1{')' * 20_000} }}'",
    "20,000 groups in grep": f"echo a | grep -E '{'(' * 20_000}a{')' * 20_000}'",
    "5,000 groups in sed": f"echo a | sed -E 's/{'(' * 5_000}a{')' * 5_000}/b/'",
    "a function of jq that calls itself": "jq -n 'def f: [f]; f'",
    "a path of 5,000 directories": f"mkdir -p {'a/' * 5_000}",
    "links in a circle": "ln -s . l; ln -s b a; ln -s a b; find -L . | wc -l; cp -rL l m; cat a; rm -r l m a b",
}
ENDLESS = {
    "a fork bomb": ":() { :|:& }; :",
    "background jobs without end": "while :; do sleep 100 & done",
    "a busy loop": "while :; do :; done",
    "a loop within awk": "awk 'BEGIN { while (1) {} }'",
    "a loop within sed": "echo a | sed ':a;s/a/aa/;ta'",
    "a sleep": "sleep infinity",
    "a job that is waited for": "sleep 1000 & wait",
    "a loop that writes for another": "while :; do echo $RANDOM; done | sort",
    "files that grow from one another": "while :; do cat kept k1 > k2; cat k2 k2 > k1; done",
    "a pattern that tries all ways": "[[ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! =~ ^(a+)+$ ]]",
    "a screen editor": "vi kept",
}
LARGE = {
    "yes": "yes",
    "a gigabyte of yes": "yes | head -c 1000000000 | wc -c",
    "a gigabyte of output": f'{MILLION}; for ((i = 0; i < 1000; i++)); do echo "$x"; done',
    "a gigabyte of errors": f'{MILLION}; for ((i = 0; i < 1000; i++)); do echo "$x"; done >&2',
    "a gigabyte in a file": f'{MILLION}; for ((i = 0; i < 1000; i++)); do echo "$x"; done > large',
    "400 MB at once": "dd if=/dev/zero of=large bs=400M count=1",
    "a terabyte by truncate": "truncate -s 1T large",
    "a hundred million numbers": "seq 100000000",
    "a variable that doubles": "x=a; while :; do x=$x$x; done",
    "an array without end": "for ((i = 0; ; i++)); do a[i]=$i; done",
    "a hundred million words": "echo {1..100000000} | wc -c",
    "a string of awk that doubles": "awk 'BEGIN { x = \"a\"; while (1) x = x x }'",
    "a billion numbers in jq": "jq -n '[range(1e9)] | length'",
    "a width of two billion": "printf '%*s' 2147483647 x | wc -c",
    "files without end": "i=0; while ((i++ < 30000)); do echo > f$i || break; done; ls | wc -l",
    "what unpacks to much": "head -c 1000000 /dev/zero | gzip > z; for i in 1 2 3 4 5 6 7 8 9; do cat z z > y; mv y z; "
    "done; gunzip -c z > big; rm z big",
    "nine megabytes of command": f"echo {'x' * 9_000_000} | wc -c",
}
OUTSIDE = {
    "what the kernel tells of processes": "cat /proc/self/environ /proc/1/environ /proc/self/maps; ls /proc/self/root/",
    "devices": "cat /dev/mem /dev/kmsg; echo x > /dev/sda",
    "the network": "exec 3<> /dev/tcp/127.0.0.1/22; curl http://169.254.169.254/; wget http://127.0.0.1/",
    "links that lead out": "ln -s / top; ln -s ../../../.. up; cat top/etc/passwd up/etc/passwd; ls top up; rm top up",
    "archives that lead out": "tar cPf /tmp/t.tar /etc/passwd; cd /; tar xPf /tmp/t.tar; cd /workspace",
    "signals to everybody": "kill -9 -1; kill -9 1; kill -9 $PPID",
    "everything is removed": "cp kept /tmp/k; rm -rf / --no-preserve-root; cp /tmp/k kept || echo kept > kept",
    "all descriptors": 'for i in $(seq 3000); do eval "exec $i> /tmp/fd$i"; done',
    "streams that are gone": "exec 0<&- 1>&- 2>&-; echo x; cat",
    "limits that are lifted": "ulimit -s unlimited; ulimit -v unlimited",
    "a NUL": "echo a\0b",
    "other interpreters": "python3 -c 'open(\"/etc/shadow\")'; perl -e 1; sqlite3 /tmp/a \"attach '/etc/passwd' as x\"",
}


@pytest.mark.parametrize(
    "given", [DEEP, ENDLESS, LARGE, OUTSIDE], ids=["deep", "endless", "large", "outside"]
)
async def test_nothing_that_a_command_does_costs_more_than_is_given_or_reaches_anything(
    given: dict[str, str], tmp_path: Path
) -> None:
    async with (
        supervised(tmp_path) as processes,
        VirtualKind().open(virtual(memory_bytes=MEMORY).reference(), stay_at(tmp_path, processes)) as site,
    ):
        await site.run(Command("echo kept > kept", "first"))
        for name, text in given.items():
            ran = await _hold(site, name, text)
            if given is not OUTSIDE:
                assert ran.status != 0 or ran.stdout or ran.stderr, (name, ran)
            assert "root:x:0:" not in ran.stdout, (name, ran)
            alive = await site.run(Command("cat kept", f"after {name}"))
            assert alive.stdout == "kept\n", (name, alive)


async def test_what_is_no_text_is_refused_and_the_shell_goes_on(tmp_path: Path) -> None:
    async with (
        supervised(tmp_path) as processes,
        VirtualKind().open(virtual().reference(), stay_at(tmp_path, processes)) as site,
    ):
        with pytest.raises(WorkspaceError, match="cannot be given this"):
            await site.run(Command("echo \ud800", "one"))
        assert (await site.run(Command("echo on", "two"))).stdout == "on\n"


async def _hold(site: Site, name: str, text: str) -> Ran:
    with _memory_of_children() as most:
        began = time.monotonic()
        ran = await site.run(Command(text, name, timeout_s=GIVEN_S))
        assert time.monotonic() - began < BOUND_S, name
    assert most[0] < BOUND_BYTES, (name, most)
    assert len(ran.stdout) + len(ran.stderr) < 500_000, name
    if ran.timed_out:
        assert "ended after 1 s" in ran.stderr, (name, ran)
    return ran


@contextmanager
def _memory_of_children() -> Generator[list[int]]:
    """The most that any descendant of this process holds meanwhile, in bytes."""
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            for pid in _descendants(os.getpid()):
                most[0] = max(most[0], _resident(pid))

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield most
    finally:
        ended.set()
        looker.join()


def _descendants(pid: int) -> set[int]:
    above: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        try:
            above[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError):
            continue
    found = {pid}
    while more := {child for child, parent in above.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
