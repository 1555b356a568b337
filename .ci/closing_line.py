# ruff: noqa: INP001  a script of CI, no package
"""Sum the closing lines of several pytest runs into one, in pytest's own form.

The exit status is 1 when a run failed or when no run got as far as its closing line.
"""

import re
import sys
from collections import Counter
from pathlib import Path

CLOSING = re.compile(r"^=+ (?P<counts>.*\d+ \w+.*) in (?P<seconds>[\d.]+)s(?: \(.*\))? =+$")
COUNT = re.compile(r"(\d+) (failed|passed|skipped|deselected|xfailed|xpassed|errors?|warnings?)")
ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")
PLURAL = {"error": "errors", "warning": "warnings"}


def part(number: int, word: str) -> str:
    """Say it as pytest does: `1 warning`, `2 warnings`."""
    return f"{number} {word.removesuffix('s') if number == 1 else word}"


def main(paths: list[str]) -> int:
    """Print the sum and return the exit status."""
    counts: Counter[str] = Counter()
    seconds = 0.0
    for path in map(Path, paths):
        for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
            if match := CLOSING.match(line):
                seconds += float(match["seconds"])
                for number, word in COUNT.findall(match["counts"]):
                    counts[PLURAL.get(word, word)] += int(number)
    parts = [part(counts[word], word) for word in ORDER if counts[word]]
    text = f" {', '.join(parts) or 'no tests ran'} in {seconds:.2f}s "
    print(text.center(80, "="))  # noqa: T201  printing is what this program is for
    return 1 if counts["failed"] or counts["errors"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
