"""The page's modules, in a browser: its screen has what `outlast.watch.Screen` has, and hostile text stays text."""

import random
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, get_args

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from outlast.records import Payload
from outlast.records.events import Event, EventKind
from outlast.watch import Screen
from tests.acceptance.browser import modules_in, opened_browser

SEQUENCES: Final = 300
EVENTS: Final = 60
WORDS: Final = ("a", "bc ", "…", "é", "😀", "👩‍👩‍👧", "\n", "<b>", "\u202e", "", "x" * 40)
COMMON: Final[Sequence[EventKind]] = ("call.text", "call.output")
KINDS: Final[Sequence[EventKind]] = (*get_args(EventKind), *COMMON * 8)


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def modules(browser: Browser) -> Generator[Page]:
    page = modules_in(browser)
    yield page
    page.close()


def _drawn(dice: random.Random) -> Iterator[Event]:
    for at in range(EVENTS):
        kind = dice.choice(KINDS)
        word = dice.choice(WORDS) * dice.randrange(3)
        yield Event(
            f"{at + 1}.0",
            kind,
            turn=dice.randrange(3),
            lane=dice.choice(("", "main", "side")),
            call=dice.randrange(5),
            name=dice.choice(("Bash", "model", "")),
            text=word,
            status=dice.choice(("ok", "error", "done", "stuck")) if kind.endswith(("led", "parked")) else "",
            offset=dice.randrange(12),
            payload=Payload(msgspec.Raw(msgspec.json.encode(word))),
            facts=dice.choice(({}, {"kind": "tool"}, {"kind": "model", "policy": "never"})),
        )


def _values(screen: Screen) -> Any:
    """As `Screen.values` of the page has them."""
    calls = [msgspec.to_builtins(view, builtin_types=(msgspec.Raw,)) for view in screen.calls.values()]
    views = msgspec.json.decode(msgspec.json.encode(calls))
    return {"calls": views, "turns": [list(pair) for pair in screen.turns.items()], "cursor": screen.cursor}


def test_the_page_has_on_its_screen_what_the_library_has(modules: Page) -> None:
    dice = random.Random(4711)
    sequences = [list(_drawn(dice)) for _ in range(SEQUENCES)]
    found: list[Any] = modules.evaluate(
        """async (sequences) => {
          const { Screen } = await import("/screen.js");
          return JSON.parse(sequences).map((events) => {
            const screen = new Screen();
            for (const event of events) screen.apply(event);
            return screen.values();
          });
        }""",
        msgspec.json.encode(sequences).decode(),
    )
    for events, shown in zip(sequences, found, strict=True):
        screen = Screen()
        for event in events:
            screen.apply(event)
        assert shown == _values(screen)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("safe\u202etxt.exe", "safe[U+202E]txt.exe"),
        ("a\u200bb\u2066c\ufeff", "a[U+200B]b[U+2066]c[U+FEFF]"),
        ("one\rtwo\x07\x9b", "one␍two␇[U+009B]"),
        ("keeps\n\tits\r\nlines", "keeps\n\tits\nlines"),
        ("👩\u200d👩\u200d👧 שלום", "👩\u200d👩\u200d👧 שלום"),
    ],
)
def test_what_would_steer_a_screen_is_shown_as_a_sign(modules: Page, said: str, shown: str) -> None:
    assert modules.evaluate('async (said) => (await import("/words.js")).plain(said)', said) == shown


def test_a_model_can_bring_no_element_into_the_page(modules: Page) -> None:
    said = (
        "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\n"
        "# <svg onload=alert(1)>\n* `</code><iframe src=javascript:alert(1)>`\n**<b onclick=x>**\n"
        "[a link](javascript:alert(1))\n```html\n<script>document.title='taken'</script>\n```"
    )
    tags: list[str] = modules.evaluate(
        """async (said) => {
          const { prose } = await import("/prose.js");
          const made = prose(said);
          document.body.append(made);
          await new Promise((done) => setTimeout(done, 50));
          return [...new Set([...made.querySelectorAll("*")].map((one) => one.localName))].sort();
        }""",
        said,
    )
    assert set(tags) <= {"p", "ul", "li", "code", "strong", "pre"}
    assert modules.title() == "modules"


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\nb\nc\n", "a\nx\nc\n", [" a", "-b", "+x", " c"]),
        ("", "one\ntwo", ["+one", "+two"]),
        ("one\n", "", ["-one"]),
        ("a\nb\na\nb\n", "b\na\nb\nb\n", ["-a", " b", " a", "+b", " b"]),
    ],
)
def test_an_edit_is_drawn_as_the_lines_that_it_changes(
    modules: Page, before: str, after: str, lines: list[str]
) -> None:
    found: list[list[str]] = modules.evaluate(
        'async ([before, after]) => (await import("/diff.js")).changes(before, after)', [before, after]
    )
    assert ["".join(line) for line in found] == lines


class _Pen:
    """Writes turns as they come: attempts that go on, calls that run beside each other and settle later."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.events: list[Event] = []
        self.calls = self.turn = 0
        self.runs: dict[int, str] = {}

    def add(self, kind: EventKind, **fields: Any) -> None:
        at = len(self.events) + 1
        self.events.append(Event(f"{at}.0", kind, at_s=float(at), **fields))

    def one(self) -> int:
        return self.dice.choice(sorted(self.runs)) if self.runs else 0

    def claim(self) -> None:
        self.add("attempt.opened", facts={"worker": "w"})

    def park(self) -> None:
        named = self.dice.sample(sorted(self.runs), self.dice.randint(0, len(self.runs)))
        self.add("turn.parked", turn=self.turn, status="decision", facts={"asks": named})

    def decide(self) -> None:
        self.add("call.decided", turn=self.turn, call=self.one(), status="allow")

    def steer(self) -> None:
        self.add("steer.taken", text="quick")

    def open(self) -> None:
        self.calls += 1
        kind = self.runs[self.calls] = self.dice.choice(("tool", "tool", "model", "value"))
        self.add("call.opened", turn=self.turn, call=self.calls, name=f"n{self.calls}", facts={"kind": kind})

    def start(self) -> None:
        if call := self.one():
            self.add("call.started", turn=self.turn, call=call)

    def settle(self) -> None:
        if call := self.one():
            facts = {"kind": self.runs.pop(call)}
            self.add("call.settled", turn=self.turn, call=call, status="ok", facts=facts)

    def a_turn(self, *, ends: bool) -> None:
        self.turn += 1
        if self.dice.random() < 0.5:
            self.add("prompt.queued", name=f"in-{self.turn}")
        self.add("turn.opened", turn=self.turn, name=f"in-{self.turn}")
        moves = (self.claim, self.park, self.decide, self.steer, self.start, *[self.open, self.settle] * 2)
        for _ in range(self.dice.randrange(6, 24)):
            self.dice.choice(moves)()
        while ends and self.runs:
            self.settle()
        if ends:
            self.add("turn.settled", turn=self.turn, status="done")


def _history(dice: random.Random) -> list[Event]:
    """Three turns; the newest may still be open."""
    pen = _Pen(dice)
    for ends in (True, True, dice.random() < 0.5):
        pen.a_turn(ends=ends)
    return pen.events


READ = """async (given) => {
  const { Story } = await import("/story.js");
  const told = (story) => ({
    rows: story.rows.map((row) => [row.key, row.is, row.nth, row.turn?.whole, row.turn?.attempts, row.turn?.calls,
      row.startedS, row.opened?.cursor, row.view?.name, row.view?.status,
      row.view?.status === "open" ? row.pending || "" : ""]),
    turn: story.turn && { ...story.turn, open: [...story.turn.open] },
    open: story.openCalls.map((row) => row.call),
    cursors: story.events.map(({ cursor }) => cursor),
    identical: story.rows.every((row) => row.is !== "call" || story.calls.get(row.call) === row),
  });
  return JSON.parse(given).map(([events, cuts]) => {
    const whole = new Story();
    whole.add(events);
    const parts = cuts.map((cut, at) => events.slice(cut, cuts[at + 1]));
    const story = new Story();
    story.add(parts.pop());
    while (parts.length) story.addOlder(parts.pop());
    return [told(whole), told(story)];
  });
}"""


def test_a_conversation_read_from_its_end_backwards_is_the_one_that_came_in_order(modules: Page) -> None:
    dice = random.Random(815)
    given: list[Any] = []
    for _ in range(SEQUENCES):
        events = _history(dice)
        cuts = [0, *sorted(dice.sample(range(1, len(events)), dice.randint(1, 4)))]
        given.append([events, cuts])
    for whole, read in modules.evaluate(READ, msgspec.json.encode(given).decode()):
        assert read == whole
        assert whole["identical"]


LIST = """async () => {
  const { LongList } = await import("/list.js");
  const frame = () => new Promise(requestAnimationFrame);
  const made = (from, count) => Array.from({ length: count }, (_, at) => ({ key: `r${from + at}`, at: from + at }));
  const list = new LongList({ draw: (row) => {
    const node = document.createElement("div");
    node.textContent = `row ${row.at}`;
    node.style.height = `${20 + (row.at % 7) * 9}px`;
    return { node };
  }, label: "rows" });
  document.body.append(list.node);
  list.node.style.cssText = "height: 500px; overflow-y: auto; position: relative";
  const style = document.createElement("style");
  style.textContent = ".row { position: absolute; left: 0; right: 0 } .canvas { position: relative; overflow: clip }";
  document.head.append(style);
  const seen = () => [...list.node.querySelectorAll(".row")].filter((row) => {
    const box = row.getBoundingClientRect();
    const own = list.node.getBoundingClientRect();
    return box.bottom > own.top + 1 && box.top < own.bottom - 1;
  }).map((row) => [row.textContent, Math.round(row.getBoundingClientRect().top)]);
  const settle = async () => { for (let n = 0; n < 6; n++) await frame(); };
  let rows = made(5000, 5000);
  list.show(rows);
  await settle();
  const end = seen();
  list.node.scrollTop -= 4000;
  await settle();
  const before = seen();
  rows = [...made(0, 5000), ...rows];
  list.show(rows);
  await settle();
  const after = seen();
  list.node.scrollTop = 0;
  await settle();
  return { end, before, after, top: seen()[0][0], most: list.node.querySelectorAll(".row").length };
}"""


def test_of_ten_thousand_rows_only_those_that_are_seen_are_in_the_document(modules: Page) -> None:
    found: dict[str, Any] = modules.evaluate(LIST)
    assert found["end"][-1][0] == "row 9999"
    assert found["before"] == found["after"]
    assert found["top"] == "row 0"
    assert found["most"] < 120
