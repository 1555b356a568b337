"""As much of `gh` as is used: `pr create`, `pr list`, `pr checks`. A stand-in for the command of a stand-in forge.

Run as `python gh.py FORGE ARGUMENT…`; it imports nothing that is not Python's own.
"""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

LOOK_S = 0.5
PENDING = 8
"""The exit status of `gh pr checks` while checks run."""


def ask(url: str, body: object = None) -> Any:
    """What the forge answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})  # noqa: S310 - the demo's forge
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - the same
        return json.load(answer)


def branch() -> str:
    """The branch that is checked out."""
    done = subprocess.run(["git", "branch", "--show-current"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def option(words: list[str], *names: str) -> str:
    """The value of an option."""
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word in names), "")


def create(forge: str, words: list[str]) -> int:
    """Open a pull request, of the branch that is checked out by default."""
    head = option(words, "--head", "-H") or branch()
    asked = {"head": head, "title": option(words, "--title", "-t"), "body": option(words, "--body", "-b")}
    try:
        print(ask(f"{forge}/pulls", {**asked, "base": option(words, "--base", "-B") or "main"})["url"])
    except urllib.error.HTTPError as error:
        print(f"pull request create failed: {json.load(error)['message']}", file=sys.stderr)
        return 1
    return 0


def listed(forge: str, words: list[str]) -> int:
    """List pull requests with the fields that are asked for."""
    head = urllib.parse.quote(option(words, "--head", "-H"))
    wanted = option(words, "--json").split(",")
    print(json.dumps([{name: one[name] for name in wanted} for one in ask(f"{forge}/pulls?head={head}")]))
    return 0


def checks(forge: str, words: list[str]) -> int:
    """Tell how the checks of the branch's newest pull request stand; with `--watch` once they are over."""
    while True:
        found = ask(f"{forge}/pulls?head={urllib.parse.quote(branch())}")
        if not found:
            print("no pull requests found for the branch", file=sys.stderr)
            return 1
        state = found[-1]["checks"]
        if state != "pending" or "--watch" not in words:
            print(f"tests\t{state}")
            return {"pass": 0, "pending": PENDING}.get(state, 1)
        time.sleep(LOOK_S)


def main(forge: str, words: list[str]) -> int:
    """Do what the words say."""
    match words[:2]:
        case ["pr", "create"]:
            return create(forge, words)
        case ["pr", "list"]:
            return listed(forge, words)
        case ["pr", "checks"]:
            return checks(forge, words)
        case _:
            print(
                f"the demo's gh knows pr create, pr list and pr checks, not {' '.join(words[:2])}",
                file=sys.stderr,
            )
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
