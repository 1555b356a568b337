"""The page for everybody: axe finds no serious fault in any view or scheme, and the keyboard reaches everything."""

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.browser import opened_browser, picture
from tests.acceptance.counter import wait_until_gone
from tests.acceptance.stall import says, uses
from tests.acceptance.stand import Stand, opened_stand, visited

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]
AXE: Final = Path(__file__).parents[2] / ".cache/clients/node_modules/axe-core/axe.min.js"
MISSING: Final = "axe is not installed: run `make clients`."
GRAVE: Final = {"serious", "critical"}
VIEWS: Final[Mapping[str, str]] = {
    "#/": "Sessions",
    "#/sessions/asks": "May publish run?",
    "#/sessions/doubt": "charge may have run, or not",
    "#/sessions/asks/waterfall": "asks",
    "#/sessions/asks/documents/plan": "plan",
    "#/sessions/asks/files": "asks",
    "#/sessions/asks/files/turn/1": "What turn 1 changed",
    "#/sessions/asks/schedules": "Schedules",
    "#/sessions/asks/about": "Used",
    "#/panes/asks,doubt,done": "asks",
}
"""Each view, and a heading by which one knows that it is there."""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def stand() -> Generator[Stand]:
    """A server with sessions in every state."""
    with opened_stand() as stand:
        bell = stand.counter.bell
        write = uses("write", path="app/a.py", content="a = 1\n")
        asks = [
            says("I begin with **this**.", write, uses("plan", steps=["one"])),
            says("Now:", uses("publish", command="ship")),
        ]
        stand.open(
            "done",
            "Do it.",
            settings={
                "script": [says("Done."), says("And `this`.", uses("check", command="ls", says="a\n"))]
            },
        )
        stand.open("asks", "Ask me.", settings={"script": asks}, labels={"team": "web"})
        stand.open(
            "doubt",
            "Charge.",
            settings={"script": [says("I do.", uses("charge", customer="ann", cents=1, bell=bell.path))]},
        )
        ring = bell.rung()
        stand.until_settled("done")
        stand.until_parked("asks")
        stand.kill(ring.pid)
        wait_until_gone(ring.pid)
        stand.work()
        stand.until_parked("doubt")
        stand.put("/v1/sessions/asks/schedules/nightly", {"text": "Tidy up.", "cron": "0 3 * * *"})
        yield stand


def faults(page: Page) -> list[str]:
    """What axe finds that keeps somebody out."""
    assert AXE.exists(), MISSING
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] | None = page.evaluate(
        "axe.run().then(({passes, violations}) => (passes.some(({id}) => id === 'color-contrast') ? violations : null))"
    )
    assert found is not None, "axe has judged no text"
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
        for one in found
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser: Browser, stand: Stand, scheme: str) -> None:
    found: dict[str, list[str]] = {}
    with visited(browser, stand, scheme=scheme) as page:
        for view, heading in VIEWS.items():
            page.goto(f"{stand.url}/{view}")
            expect(page.get_by_role("heading", name=heading).first).to_be_visible()
            page.wait_for_timeout(150)
            found[view] = faults(page)
        for keys, title in (("?", "Keyboard"), ("n", "New session")):
            page.goto(f"{stand.url}/#/")
            expect(page.get_by_role("link", name="done")).to_be_visible()
            page.keyboard.press(keys)
            expect(page.get_by_role("dialog", name=title)).to_be_visible()
            found[title] = faults(page)
            page.keyboard.press("Escape")
        page.goto(f"{stand.url}/decide/{stand.link_to('doubt')}")
        expect(page.get_by_role("heading", name="Decide", exact=True)).to_be_visible()
        found["decide"] = faults(page)
        page.context.clear_cookies()
        page.goto(f"{stand.url}/?again#/")
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        found["login"] = faults(page)
    assert {view: wrong for view, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_in_a_waterfall_that_is_used(
    browser: Browser, stand: Stand, scheme: str
) -> None:
    with visited(browser, stand, "#/sessions/doubt/waterfall", scheme=scheme) as page:
        expect(page.locator(".wf-saved")).not_to_be_empty()
        page.get_by_text("Attempts and calls as a table").click()
        page.get_by_role("button", name="Show call 2 in the drawing").click()
        expect(page.locator(".wf-details")).to_contain_text("Call 2 in the conversation")
        assert faults(page) == []


def test_axe_sees_a_fault_where_there_is_one(browser: Browser, stand: Stand) -> None:
    with visited(browser, stand) as page:
        expect(page.get_by_role("link", name="done")).to_be_visible()
        page.evaluate("document.querySelector('h1').style.color = '#ccc'")
        assert any("color-contrast" in one for one in faults(page))


def test_the_keyboard_alone_leads_from_the_list_to_a_decision(browser: Browser, stand: Stand) -> None:
    with visited(browser, stand, height=420) as page:
        expect(page.get_by_role("link", name="done")).to_be_visible()
        picture(page, "page-sessions")
        page.keyboard.press("/")
        page.keyboard.type("asks")
        expect(page.get_by_role("link", name="done")).to_have_count(0)
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="asks")).to_be_visible()
        card = page.get_by_role("region", name="May publish run?")
        expect(card.get_by_role("button", name="Deny")).to_be_visible()
        page.keyboard.press("3")
        expect(page.get_by_role("textbox", name="Document plan")).to_be_visible()
        page.keyboard.press("1")
        # The tab changes a moment later.
        expect(card.get_by_role("button", name="Deny")).to_be_visible()
        page.keyboard.press("w")
        expect(page.locator(":focus")).to_be_visible()
        focused = "document.activeElement.closest('.card') !== null"
        assert page.evaluate(focused)
        ring = "getComputedStyle(document.activeElement).outlineStyle"
        page.keyboard.press("Tab")
        assert page.evaluate(focused)
        assert page.evaluate(ring) != "none"
        page.keyboard.press("c")
        assert page.evaluate("document.activeElement.closest('.composer') !== null")


def test_a_signed_link_decides_on_a_telephone_without_a_login_and_counts_once(
    browser: Browser, stand: Stand
) -> None:
    link = stand.link_to("doubt")
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{stand.url}/decide/{link}")
    card = page.get_by_role("region", name="charge may have run, or not")
    expect(card).to_contain_text('"customer": "ann"')
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for choice in card.get_by_role("button").all():
        box = choice.bounding_box()
        assert box is not None
        assert box["height"] >= 44
    card.get_by_role("button", name="It failed").tap()
    expect(card).to_contain_text("Decided: It failed")
    stand.until_settled("doubt")
    page.goto(f"{stand.url}/decide/{link}?again")
    expect(page.get_by_role("alert")).to_contain_text("waits for no such decision any more")
    context.close()
