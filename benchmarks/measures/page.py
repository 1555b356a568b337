"""How soon the page is there, in Debian's Chromium: its first paint, and a session of 10,000 calls, opened and read.

A browser without a past loads everything from `outlast serve` over loopback. Moments are the browser's own, counted
from when it began to go to the address.
"""

import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright

from benchmarks.frame import Bench, Row, median, percentile, spread
from benchmarks.long_log import write_turn
from benchmarks.serving import Serving, serving
from outlast.adapter import Agent
from outlast.adapters.python import IO, Loop
from outlast.ids import new_id
from outlast.tool import ToolIO, tool

CALLS = 10_000
PAINT_MS = 200.0
OPEN_MS = 1000.0
FRAME_MS = 50.0
"""A frame that takes longer is felt."""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
NEWEST = f"document.querySelector('[data-key=c{CALLS}] .head') && performance.now()"
SCROLLED = """async () => {
  const list = document.querySelector('.long');
  const frames = [];
  let [before, rows] = [performance.now(), 0];
  for (let step = 0; step < 400; step++) {
    list.scrollTop -= 600;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - before);
    before = performance.now();
    rows = Math.max(rows, list.querySelectorAll('.row').length);
  }
  return [frames, rows];
}"""
"""Upwards, 240,000 pixels, a step in each frame: what was before is read and put above meanwhile."""


@tool(replay="safe")
async def work(io: ToolIO, number: int) -> str:
    """Nothing: its calls stand in the log already."""
    del io, number
    return "done"


async def _loop(io: IO, prompt: str) -> None:
    await io.wait_for(prompt)


async def page(bench: Bench) -> Sequence[Row]:
    """First paint in at most 200 ms; 10,000 calls opened in at most 1 s, and read without a frame that is felt."""
    agent = Agent("looped", Loop(_loop), tools=[work])
    async with bench.open() as world:
        await write_turn(world, "long", agent, CALLS, "work")
    async with serving(bench) as server, _browser() as browser:
        paints: list[float] = []
        opens: list[float] = []
        for _ in range(bench.times(9, 3)):
            paints.append(await _moment(browser, server, "", PAINTED))
            opens.append(await _moment(browser, server, "#/sessions/long", NEWEST))
        async with _visit(browser, server, "#/sessions/long") as opened:
            await _until(opened, NEWEST)
            scrolled: tuple[list[float], int] = await opened.evaluate(SCROLLED)
    frames, rows = scrolled
    slow = percentile(frames, 0.99)
    return [
        _row("the page's first paint", median(paints), PAINT_MS, spread(paints)),
        _row(f"the page opens a session of {CALLS:,} calls", median(opens), OPEN_MS, spread(opens)),
        _row(
            f"a frame while {CALLS:,} calls are scrolled, p99",
            slow,
            FRAME_MS,
            f"p50 {median(frames):.0f}, longest {max(frames):.0f}; {rows} rows in the document at most",
        ),
    ]


def _row(name: str, value: float, limit: float, over: str) -> Row:
    return Row(name, "", value, "ms", f"<= {limit:g} ms", value <= limit, spread=over)


@asynccontextmanager
async def _browser() -> AsyncGenerator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("there is no Chromium here: apt-get install --no-install-recommends chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        await browser.close()


@asynccontextmanager
async def _visit(browser: Browser, server: Serving, path: str) -> AsyncGenerator[Page]:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    url = f"http://127.0.0.1:{server.port}"
    answer = await context.request.post(f"{url}/v1/login", data={"token": server.token})
    if not answer.ok:
        raise RuntimeError(f"the page could not log in: {answer.status}")
    opened = await context.new_page()
    # Another query each time: an address that differs behind its # alone would load nothing.
    await opened.goto(f"{url}/?{new_id('visit')}{path}")
    yield opened
    await context.close()


async def _moment(browser: Browser, server: Serving, path: str, moment: str) -> float:
    async with _visit(browser, server, path) as opened:
        return await _until(opened, moment)


async def _until(opened: Page, moment: str) -> float:
    """Ask in each frame until there is an answer. (What waits in Playwright's own way is code from a text, which the
    page's policy forbids.)
    """
    found = await opened.evaluate(
        f"""() => new Promise((done) => {{
          const look = () => {{
            const found = {moment};
            if (found) done(found);
            else requestAnimationFrame(look);
          }};
          look();
        }})"""
    )
    return float(found)
