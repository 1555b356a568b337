"""The page while things go away under it: its server, its login, its session; and while two decide the same."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.acceptance.browser import opened_browser
from tests.acceptance.stall import says, uses
from tests.acceptance.stand import Stand, opened_stand, visited

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


ALL_READ = """() => new Promise((done) => {
  const wanted = ["table.js", "documents.js", "files.js", "schedules.js"];
  const look = () => {
    const names = performance.getEntriesByType("resource").map(({ name }) => name.split("/").pop());
    if (wanted.every((one) => names.includes(one))) done();
    else requestAnimationFrame(look);
  };
  look();
})"""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with opened_browser() as browser:
        yield browser


@pytest.fixture
def stand() -> Generator[Stand]:
    with opened_stand() as stand:
        yield stand


def _done(stand: Stand, session: str) -> None:
    stand.open(session, "Say so.", settings={"script": [says(f"This is {session}.")]})
    stand.until_settled(session)


def test_the_back_button_leads_where_one_was(browser: Browser, stand: Stand) -> None:
    _done(stand, "one")
    with visited(browser, stand) as page:
        page.get_by_label("Search", exact=True).fill("one")
        expect(page).to_have_url(re.compile("q=one"))
        page.get_by_role("link", name="one").click()
        expect(page.get_by_text("This is one.")).to_be_visible()
        page.get_by_role("link", name="About").click()
        expect(page.get_by_role("heading", name="Used")).to_be_visible()
        page.go_back()
        expect(page.get_by_text("This is one.")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
        expect(page.get_by_label("Search", exact=True)).to_have_value("one")
        page.go_forward()
        expect(page.get_by_text("This is one.")).to_be_visible()


def test_a_scheme_that_somebody_chose_is_there_with_the_first_paint(browser: Browser, stand: Stand) -> None:
    with visited(browser, stand, scheme="light") as page:
        page.get_by_role("button", name="Change between dark and light").click()
        page.route("**/*.js", lambda route: route.abort())
        page.goto(f"{stand.url}/?again")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 22, 24)"


def test_a_session_that_is_erased_while_it_is_open_says_so(browser: Browser, stand: Stand) -> None:
    _done(stand, "gone")
    with visited(browser, stand, "#/sessions/gone") as page:
        expect(page.get_by_text("This is gone.")).to_be_visible()
        assert stand.api.delete("/v1/sessions/gone").status_code < 300
        banner = page.get_by_role("status").filter(has_text="This session has been erased.")
        expect(banner).to_be_visible()
        expect(page.locator(".composer")).to_be_hidden()
        banner.get_by_role("link", name="All sessions").click()
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
        expect(page.locator("#away")).to_be_hidden()
        expect(page.get_by_role("link", name="gone")).to_have_count(0)


@pytest.mark.parametrize("path", ["#/", "#/sessions/here"])
def test_a_server_that_is_away_is_told_of_and_comes_back_by_itself(
    browser: Browser, stand: Stand, path: str
) -> None:
    _done(stand, "here")
    with visited(browser, stand, path) as page:
        # The list's row; a session's heading.
        expect(page.get_by_role("link" if path == "#/" else "heading", name="here")).to_be_visible()
        stand.server.kill()
        stand.server.wait()
        banner = page.locator("#away")
        expect(banner).to_contain_text("The server does not answer.")
        stand.restart()
        expect(banner).to_be_hidden()
        stand.send("here", "Again.")
        told = page.get_by_text("Turn 2 done") if "sessions" in path else page.get_by_text("turn 2 done")
        expect(told).to_be_visible()


def test_views_that_were_never_opened_are_there_without_the_server(browser: Browser, stand: Stand) -> None:
    _done(stand, "here")
    with visited(browser, stand, "#/sessions/here") as page:
        expect(page.get_by_text("This is here.")).to_be_visible()
        page.evaluate(ALL_READ)
        page.route("**/*.js", lambda route: route.abort())
        page.get_by_role("link", name="Schedules").click()
        expect(page.get_by_role("button", name="New schedule")).to_be_visible()
        page.get_by_role("link", name="Waterfall").click()
        expect(page.locator(".wf-saved")).not_to_be_empty()


@pytest.mark.parametrize("path", ["#/", "#/sessions/mine"])
def test_a_login_whose_token_is_removed_is_asked_for_anew(browser: Browser, stand: Stand, path: str) -> None:
    _done(stand, "mine")
    added = stand.counter.outlast("token", "add", "ann", "--json").stdout
    token = re.search(r"ol_[\w-]+", added)
    assert token is not None
    page = browser.new_page()
    page.goto(f"{stand.url}/{path}&token={token.group()}")
    expect(page.get_by_text("mine").first).to_be_visible()
    stand.counter.outlast("token", "rm", "ann")
    stand.server.kill()
    stand.server.wait()
    stand.restart()
    # Nobody touches the page: what it follows is refused, and it asks why.
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="You are not logged in any more.")).to_be_visible()
    page.get_by_label("Token").fill(stand.token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("mine").first).to_be_visible()
    page.close()


def test_of_two_who_decide_one_counts_and_the_other_is_told(browser: Browser, stand: Stand) -> None:
    script = [says("Now.", uses("publish", command="ship")), says("So it is.")]
    stand.open("both", "Ask.", settings={"script": script})
    stand.until_parked("both")
    with (
        visited(browser, stand, "#/sessions/both") as page,
        visited(browser, stand, "#/sessions/both") as other,
    ):
        card = page.get_by_role("region", name="May publish run?")
        expect(card.get_by_role("button", name="Deny")).to_be_visible()
        slow = other.get_by_role("region", name="May publish run?")
        expect(slow.get_by_role("button", name="Deny")).to_be_visible()
        # The other one's answer is on its way while the first one's lands.
        other.route("**/decisions", lambda route: (stand.until_settled("both"), route.continue_()))
        card.get_by_role("button", name="Allow", exact=True).click()
        slow.get_by_role("button", name="Deny").evaluate("button => button.click()")
        expect(page.get_by_text("Turn 1 done")).to_be_visible()
        expect(slow).to_contain_text("This did not count.")
        slow.get_by_role("button", name="Close").click()
        expect(slow).to_have_count(0)
        decided = [
            one for one in stand.get("/v1/sessions/both/events")["events"] if one["kind"] == "call.decided"
        ]
        assert [one["status"] for one in decided] == ["allow"]


def test_a_stuck_turn_shows_its_evidence_and_is_let_go_on(browser: Browser, stand: Stand) -> None:
    shut = Path(f"{stand.counter.bell.path}.shut")
    shut.touch()
    stand.open("stuck", "Come in.", agent="door")
    with visited(browser, stand, "#/sessions/stuck") as page:
        card = page.get_by_role("region", name="The turn is stuck")
        expect(card).to_contain_text("the door is shut")
        shut.unlink()
        card.get_by_role("button", name="Let it go on").click()
        expect(page.get_by_text("Turn 1 done")).to_be_visible()
        expect(card).to_have_count(0)


def test_an_image_that_a_tool_shows_is_seen(browser: Browser, stand: Stand) -> None:
    stand.open("seen", "Look.", settings={"script": [says("I look.", uses("look")), says("Green.")]})
    stand.until_settled("seen")
    with visited(browser, stand, "#/sessions/seen") as page:
        shown = page.get_by_role("img", name="An image that the tool showed the model")
        expect(shown).to_be_visible()
        assert shown.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [48, 16]
