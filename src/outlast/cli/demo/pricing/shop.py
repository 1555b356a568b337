"""The application that is worked on, what the model is asked to do with it, and what the scripted model says."""

from collections.abc import Mapping
from typing import Final

from outlast.cli.demo.plot import GAP_S, usage
from outlast.testing.models import Script, Step, ToolUse

SIGNAL: Final = "ci"
"""What outlast waits for; the forge sends it."""
MODEL: Final = "claude-sonnet-4-5"
TITLE: Final = "Add a pricing page"
APP: Final = '''"""A small shop on the web: `python3 shop.py` serves it."""

from wsgiref.simple_server import make_server

PAGES = {
    "/": "<h1>Shop</h1><p>Tea, by the pound.</p>",
}


def page(path):
    """The page at a path, or None."""
    return PAGES.get(path)


def application(environ, start_response):
    found = page(environ["PATH_INFO"])
    start_response("200 OK" if found else "404 Not Found", [("Content-Type", "text/html")])
    return [(found or "<h1>Not here</h1>").encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", 8000, application).serve_forever()
'''
TEST: Final = """import unittest

import shop


class Pages(unittest.TestCase):
    def test_the_shop_has_a_front_page(self):
        self.assertIn("Tea", shop.page("/"))


if __name__ == "__main__":
    unittest.main()
"""
FILES: Final[Mapping[str, str]] = {"shop.py": APP, "test_shop.py": TEST, "CHANGES.md": "# Changes\n"}
_PRICED: Final = APP.replace(
    "\n}\n",
    '\n    "/pricing": "<h1>Pricing</h1><ul><li>Green tea: $12</li><li>Black tea: $9</li></ul>",\n}\n',
    1,
)
_TESTED: Final = TEST.replace(
    "\n\n\nif __name__",
    '\n\n    def test_the_pricing_page_names_every_price(self):\n        for price in ("$12", "$9"):\n'
    '            self.assertIn(price, shop.page("/pricing"))\n\n\nif __name__',
)
ASKED: Final = (
    "Add a pricing page to this shop (shop.py) with a test of it, run the tests, note it in CHANGES.md, commit it on a "
    "branch that is named after the commit, push that, open a pull request, wait for its CI and tell me how it ended."
)
GO_ON: Final = "Go on where you stopped."
CHECKS: Final = "gh pr checks --watch"


def prompt(conversation: str, text: str = ASKED) -> str:
    """What the model is asked; a scripted one knows by the marker what to say."""
    return f"{text} [script:{conversation}]"


STEPS: Final = 8
"""Answers of the model that the work takes, where none is asked for twice."""


def script() -> Script:
    """What the model says: the same work in all three runs, and what it says to a person who tells it to go on."""
    waits = ToolUse(name="mcp__outlast__outlast_wait", input={"signal": SIGNAL})
    watches = _bash(CHECKS, "Wait for CI")
    return Script(
        conversations={
            "restart": _work(watches),
            "continue": _work(watches),
            "continued": _again(watches),
            "outlast": _work(waits),
        }
    )


def _bash(command: str, what: str) -> ToolUse:
    return ToolUse(name="Bash", input={"command": command, "description": what})


def _work(wait: ToolUse) -> tuple[Step, ...]:
    return (
        Step(
            text="I look at the shop and its test first.",
            tools=(_read("shop.py"), _read("test_shop.py")),
            usage=usage(6200, 96, 0),
        ),
        Step(
            text="One page and one test. The prices stand in the page itself, as the front page does it, so that "
            "nothing else changes.",
            tools=(_write("shop.py", _PRICED), _write("test_shop.py", _TESTED)),
            usage=usage(910, 640, 6200),
            gap_s=GAP_S / 2,
        ),
        Step(
            text="Now the tests.",
            tools=(_bash("python3 -m unittest -q", "Run the tests"),),
            usage=usage(720, 70, 7110),
        ),
        Step(
            text="They pass. I note it and commit.",
            tools=(
                _bash(
                    f"date -u '+- %F %T {TITLE}' >> CHANGES.md && git add -A && git commit -qm '{TITLE}' && "
                    'git checkout -qb "pricing-$(git rev-parse --short HEAD)"',
                    "Commit on a branch of its own",
                ),
            ),
            usage=usage(140, 130, 7830),
        ),
        Step(
            text="I push the branch.",
            tools=(_bash("git push -q origin HEAD", "Push the branch"),),
            usage=usage(110, 64, 7970),
        ),
        Step(
            text="And open the pull request.",
            tools=(_create(),),
            usage=usage(90, 98, 8080),
        ),
        Step(text="It is open. Now CI.", tools=(wait,), usage=usage(130, 60, 8170)),
        Step(text="The pull request is open, and its CI has passed.", usage=usage(120, 44, 8300)),
    )


def _again(wait: ToolUse) -> tuple[Step, ...]:
    """After its own `--continue` the program has forgotten the call that was cut off, and so it is made again."""
    return (
        Step(
            text="The branch is pushed. I open the pull request.",
            tools=(_create(),),
            usage=usage(260, 98, 8000),
        ),
        Step(text="There is one already. Now CI.", tools=(wait,), usage=usage(150, 62, 8260)),
        Step(text="The pull request is open, and its CI has passed.", usage=usage(120, 44, 8410)),
    )


def _create() -> ToolUse:
    return _bash(f"gh pr create --title '{TITLE}' --body 'A page with all prices, and its test.'", "Open it")


def _read(name: str) -> ToolUse:
    return ToolUse(name="Read", input={"file_path": name})


def _write(name: str, text: str) -> ToolUse:
    return ToolUse(name="Write", input={"file_path": name, "content": text})
