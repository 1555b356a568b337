"""The page as a person uses it: start, watch, kill, see it resumed, approve, edit a document, fork, erase."""

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.acceptance.browser import opened_browser, picture
from tests.acceptance.counter import wait_until_gone
from tests.acceptance.stall import says, uses
from tests.acceptance.stand import Stand, opened_stand, visited

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def stand() -> Generator[Stand]:
    with opened_stand() as stand:
        yield stand


def row(page: Page, name: str) -> Locator:
    """The newest row of the tool `name`."""
    return page.locator(".call.tool", has=page.locator(".what", has_text=re.compile(f"^{name}$"))).last


def test_a_killed_turn_goes_on_before_the_eyes_of_who_watches(browser: Browser, stand: Stand) -> None:
    bell = stand.counter.bell
    with visited(browser, stand) as page:
        page.get_by_role("button", name="New session").click()
        page.get_by_label("Name").fill("pricing-3f2a")
        page.get_by_role("textbox", name="Agent").fill("builder")
        page.get_by_label("First prompt").fill(
            "Add a pricing page to the shop: free, and team at $12. Publish it."
        )
        page.get_by_role("button", name="Open", exact=True).click()
        expect(page.get_by_role("heading", name="pricing-3f2a")).to_be_visible()

        first = bell.rung()
        expect(row(page, "check")).to_contain_text("..F. [ 60%]")
        stand.kill(first.pid)
        wait_until_gone(first.pid)
        stand.work()
        second = bell.rung()
        expect(page.get_by_text("Attempt 2")).to_be_visible()
        expect(row(page, "check")).to_contain_text("..F. [ 60%]")
        assert page.get_by_text("..F. [ 60%]").count() == 1
        picture(page, "page-resumed")
        second.answer("..... [100%] 5 passed")
        expect(row(page, "check")).to_contain_text("5 passed")

        card = page.get_by_role("region", name="May publish run?")
        expect(card).to_contain_text("ship --prod")
        expect(card).to_contain_text("a person looks at what goes on the web")
        picture(page, "page-decision")
        card.get_by_role("button", name="Allow", exact=True).click()
        expect(page.get_by_text("It is published.")).to_be_visible()
        expect(page.get_by_text("Turn 1 done")).to_be_visible()
        expect(card).to_have_count(0)
        assert page.get_by_text("Now the prices.").count() == 1

        page.get_by_role("link", name="Files", exact=True).click()
        page.get_by_label("Show").select_option("1")
        expect(page.locator(".diff .more", has_text='"team": 12')).to_be_visible()
        picture(page, "page-files")


def test_a_call_in_doubt_shows_what_is_known_and_is_decided_once(browser: Browser, stand: Stand) -> None:
    script = [
        says("I charge ann.", uses("charge", customer="ann", cents=1250, bell="here")),
        says("Charged, once."),
    ]
    stand.open("refund-81", "Charge ann 12.50 for order 81.", settings={"script": script})
    ring = stand.counter.bell.rung()
    stand.kill(ring.pid)
    wait_until_gone(ring.pid)
    stand.work()
    with visited(browser, stand, "#/sessions/refund-81", width=360, height=740, scheme="dark") as page:
        card = page.get_by_role("region", name="charge may have run, or not")
        expect(card).to_contain_text('"customer": "ann"')
        expect(card).to_contain_text("It may not run twice by itself.")
        card.get_by_label("Its result").fill('{"paid": true}')
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture(page, "page-telephone")
        card.get_by_role("button", name="It is done").click()
        expect(page.get_by_text("Charged, once.")).to_be_visible()
        assert stand.until_settled("refund-81") == "done"


def test_a_document_is_edited_and_nobodys_edit_is_lost(browser: Browser, stand: Stand) -> None:
    stand.open("plan-1", "Plan it.", settings={"script": [says("A plan.", uses("plan", steps=["one"]))]})
    stand.until_settled("plan-1")
    with visited(browser, stand, "#/sessions/plan-1/documents/plan") as page:
        field = page.get_by_label("Document plan")
        expect(field).to_have_value(re.compile("one"))
        field.fill('{"steps": ["one", "mine"]}')
        stand.post_edit("plan-1", "plan", {"steps": ["one", "theirs"]})
        conflict = page.get_by_role("region", name="Two versions")
        expect(conflict).to_contain_text("It is version 2 meanwhile; yours was made of version 1")
        expect(field).to_have_value(re.compile("mine"))
        picture(page, "page-conflict")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert").filter(has_text="version")).to_be_visible()
        conflict.get_by_role("button", name="Keep mine, over the newer version").click()
        expect(page.get_by_text("Version 3")).to_be_visible()
        assert stand.get("/v1/sessions/plan-1/documents/plan")["value"] == {"steps": ["one", "mine"]}


def test_a_session_is_forked_from_a_call_exported_and_erased(browser: Browser, stand: Stand) -> None:
    script = [says("First.", uses("plan", steps=["one"])), says("Second.", uses("plan", steps=["two"]))]
    stand.open("source", "Do both.", settings={"script": script})
    stand.until_settled("source")
    with visited(browser, stand, "#/sessions/source") as page:
        page.on("dialog", lambda dialog: dialog.dismiss())
        row(page, "plan").get_by_role("button", expanded=False).click()
        row(page, "plan").get_by_role("button", name=re.compile("Fork from behind call")).click()
        page.get_by_label("Name of the fork").fill("other")
        page.get_by_role("button", name="Fork", exact=True).click()
        expect(page.get_by_role("heading", name="other")).to_be_visible()
        expect(page.get_by_text("A fork of source begins here")).to_be_visible()
        page.get_by_role("link", name="About").click()
        with page.expect_download() as download:
            page.get_by_role("link", name="Export").click()
        assert download.value.suggested_filename == "other.tar"
        page.get_by_role("button", name="Erase…").click()
        page.get_by_label("Type other to erase it").fill("source")
        page.get_by_label("While its turn is open").select_option("erase all the same")
        page.get_by_role("button", name="Erase for good").click()
        expect(page.get_by_text("That is not other: nothing was erased.")).to_be_visible()
        page.get_by_label("Type other to erase it").fill("other")
        page.get_by_role("button", name="Erase for good").click()
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
        expect(page.get_by_role("link", name="source")).to_be_visible()
        expect(page.get_by_role("link", name="other")).to_have_count(0)
    assert stand.api.get("/v1/sessions/other").status_code == 404


def test_a_diverged_turn_shows_both_sides_and_is_let_go_on(browser: Browser, stand: Stand) -> None:
    ledger = stand.counter.directory / "ledger"
    stand.open("astray", str(ledger), agent="stray")
    with visited(browser, stand, "#/sessions/astray") as page:
        expect(page.get_by_role("region", name="Waits for a signal")).to_contain_text("ready")
        ledger.write_text("another\n", encoding="utf-8")
        stand.post("/v1/sessions/astray/signals", {"name": "ready"})
        card = page.get_by_role("region", name="The turn is diverged")
        expect(card).to_contain_text("after 0")
        expect(card).to_contain_text("after 1")
        ledger.unlink()
        card.get_by_role("button", name="Let it go on").click()
        expect(page.get_by_text("Turn 1 done")).to_be_visible()
        expect(card).to_have_count(0)


def test_a_page_goes_on_where_it_was_when_its_server_comes_back(browser: Browser, stand: Stand) -> None:
    steps = [
        says("Before.", uses("check", command="wait", says="half", bell=stand.counter.bell.path)),
        says("Behind."),
    ]
    stand.open("cut", "Go.", settings={"script": steps})
    ring = stand.counter.bell.rung()
    with visited(browser, stand, "#/sessions/cut") as page:
        expect(row(page, "check")).to_contain_text("half")
        stand.server.kill()
        stand.server.wait()
        expect(page.get_by_text("connecting again…")).to_be_visible()
        ring.answer("-whole")
        stand.restart()
        expect(page.get_by_text("Turn 1 done")).to_be_visible()
        expect(row(page, "check")).to_contain_text("half-whole")
        assert page.get_by_text("Before.").count() == page.get_by_text("Behind.").count() == 1
        expect(page.get_by_text("connecting again…")).to_have_count(0)


def test_a_running_turn_is_steered_and_cancelled(browser: Browser, stand: Stand) -> None:
    script = [says("I wait.", uses("check", command="sleep", bell=stand.counter.bell.path)), says("More.")]
    stand.open("long", "Wait for me.", settings={"script": script})
    stand.counter.bell.rung()
    with visited(browser, stand, "#/sessions/long") as page:
        field = page.get_by_label("Steer turn 1")
        field.fill("Be quick")
        field.press("Enter")
        expect(field).to_have_value("")
        page.get_by_role("button", name="Cancel turn").click()
        expect(page.get_by_text("Turn 1 cancelled")).to_be_visible()
        expect(page.get_by_text("Be quick").first).to_be_visible()


def test_the_token_of_the_link_leaves_the_address_and_a_wrong_one_is_refused(
    browser: Browser, stand: Stand
) -> None:
    with visited(browser, stand) as page:
        assert stand.token not in page.url
        assert stand.token not in page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie])"
        )
    page = browser.new_page()
    page.goto(f"{stand.url}/#token=ol_wrong")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert "ol_wrong" not in page.url
    page.get_by_label("Token").fill(stand.token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    page.close()


def test_what_a_model_says_does_nothing_to_the_page(browser: Browser, stand: Stand) -> None:
    trick = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\x1b[2J\u202eevil"
    script = [
        says(trick, uses("check", command=trick, says=trick)),
        says(trick, uses("plan", steps=[trick])),
        says(trick, uses("publish", command=trick)),
    ]
    stand.open("hostile", trick, settings={"script": script}, labels={"label": "<b>bold</b>"})
    with visited(browser, stand, "#/sessions/hostile") as page:
        expect(page.get_by_role("region", name="May publish run?")).to_contain_text("[U+202E]evil")
        for tab in ("waterfall", "documents", "about", ""):
            page.goto(f"{stand.url}/#/sessions/hostile/{tab}")
            page.wait_for_timeout(200)
            assert page.title() == "hostile · outlast"
            assert page.locator("main img, main script, main b").count() == 0
