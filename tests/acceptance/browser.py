"""Debian's Chromium, driven by Playwright: a browser as people have it."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

import outlast.server
from tests.acceptance.terminals import LIMIT_S

LIMIT_MS: Final = LIMIT_S * 1000
PAGE: Final = Path(outlast.server.__file__).parent / "page"
MISSING: Final = "There is no Chromium here. Install it: apt-get install --no-install-recommends chromium"
NOWHERE: Final = "http://page.test/"
"""A host that is nowhere: what is asked of it comes from the page's own files."""
IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
WRITTEN: Final = "OUTLAST_PAGE_IMAGES"
"""Set: the images of the docs are made anew."""
_MEDIA: Final = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}


@contextmanager
def opened_browser() -> Generator[Browser]:
    """A browser of its own, which ends with the context.

    Raises:
        AssertionError: the machine has none.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program is not None, MISSING
    expect.set_options(timeout=LIMIT_MS)
    with sync_playwright() as playwright:
        # Tests run as root in containers, where Chromium's own sandbox cannot be made.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def modules_in(browser: Browser) -> Page:
    """A page without a server, in which the page's modules can be imported: `import("/screen.js")`."""
    page = browser.new_page()
    page.route("**/*", _file)
    page.goto(NOWHERE)
    return page


def _file(route: Route) -> None:
    name = route.request.url.removeprefix(NOWHERE)
    if not name:
        route.fulfill(body="<!doctype html><title>modules</title>", content_type="text/html")
        return
    path = PAGE / name
    route.fulfill(body=path.read_bytes(), content_type=_MEDIA[path.suffix])


def picture(page: Page, name: str) -> None:
    """An image for the docs, where somebody wants them anew."""
    if os.environ.get(WRITTEN):
        IMAGES.mkdir(exist_ok=True)
        page.wait_for_timeout(300)
        page.screenshot(path=IMAGES / f"{name}.png")
