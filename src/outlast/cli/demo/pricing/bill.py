"""What each run has cost, measured outside: at the model's door and at the forge; and whether outlast kept its word."""

from collections.abc import Sequence
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from outlast.cli.demo.pricing.shop import MODEL, STEPS
from outlast.prices import PriceTable, find_price
from outlast.testing.models import RequestRecord

OUTLAST: Final = "outlast"
NAMES: Final = {"restart": "started over", "continue": "claude --continue", OUTLAST: "outlast"}
"""Of the runs, for people."""
CONVERSATIONS: Final = {"restart": ("restart",), "continue": ("continue", "continued"), OUTLAST: (OUTLAST,)}
"""What each asks the scripted model in."""


class Run(msgspec.Struct):
    """One of the three."""

    name: str
    done: bool = False
    result: str = ""
    model_calls: int = 0
    """That reached the provider."""
    beyond: int = 0
    """Of them, those that would not have been asked but for the kill."""
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    pull_requests: int = 0
    checks: str = ""
    """How the CI of the newest one ended."""
    human_actions: int = 0


class Watched(msgspec.Struct):
    """What came of the browser whose cable was pulled."""

    cuts: int = 0
    events: int = 0
    twice: int = 0
    """Events that came again."""
    same: bool = False
    """Its screen is that of somebody who reads all of it at the end."""


class Bill(msgspec.Struct):
    """Everything at the end; `ok` only if outlast kept every promise."""

    ok: bool
    runs: list[Run]
    watched: Watched
    functions: int
    """That outlast's turn took, the one included that was killed."""
    idle_s: float
    """Seconds in which CI ran and no function did."""
    broken: list[str]


def count(run: Run, requests: Sequence[RequestRecord]) -> None:
    """Enter what the model's door saw of a run."""
    price = find_price(MODEL, PriceTable().anthropic)
    assert price is not None
    ours = [one for one in requests if one.conversation in CONVERSATIONS[run.name] and one.kind == "model"]
    run.model_calls = len(ours)
    run.beyond = max(0, run.model_calls - STEPS)
    for one in ours:
        billed = one.billed
        run.tokens += (
            billed.input_tokens + billed.output_tokens + billed.cache_read_tokens + billed.cache_write_tokens
        )
        run.cost_usd += (
            billed.input_tokens * price.input
            + billed.output_tokens * price.output
            + billed.cache_read_tokens * price.cache_read
            + billed.cache_write_tokens * price.cache_write
        ) / 1e6
    run.cost_usd = round(run.cost_usd, 6)


def broken_promises(run: Run, watched: Watched) -> list[str]:
    """What outlast did not keep, a sentence each."""
    said = {
        f"the turn did not end as done: {run.result}": run.done,
        f"{run.pull_requests} pull requests were opened, not 1": run.pull_requests == 1,
        f"CI ended as {run.checks or 'nothing'}, not pass": run.checks == "pass",
        f"a person had to act {run.human_actions} times": run.human_actions == 0,
        f"the model was asked {run.model_calls} times for {STEPS} answers": run.model_calls == STEPS,
        "the browser's cable was never pulled": watched.cuts > 0,
        f"the browser was sent {watched.twice} events twice": watched.twice == 0,
        "the browser's screen differs from the log": watched.same,
    }
    return [sentence for sentence, kept in said.items() if not kept]


def print_bill(bill: Bill, console: Console) -> None:
    """The bill for people."""
    table = Table(
        title="The same work, a function that is killed when its pull request is open", title_justify="left"
    )
    table.add_column("")
    for run in bill.runs:
        table.add_column(NAMES[run.name], justify="right")
    rows = {
        "model calls": [f"{run.model_calls}" for run in bill.runs],
        "of them because of the kill": [f"{run.beyond}" for run in bill.runs],
        "tokens": [f"{run.tokens:,}" for run in bill.runs],
        "at list price": [f"${run.cost_usd:.4f}" for run in bill.runs],
        "time": [f"{run.seconds:.1f} s" for run in bill.runs],
        "pull requests": [f"{run.pull_requests}" for run in bill.runs],
        "human actions": [f"{run.human_actions}" for run in bill.runs],
        "ended": ["done" if run.done else "not" for run in bill.runs],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console.print(table)
    console.print(
        "Tokens are what the scripted model reports, the same for the same answer in each run.",
        style="bright_black",
    )
    watched = bill.watched
    console.print(
        f"The browser: {watched.events} events over {watched.cuts + 1} connections, {watched.twice} twice. "
        f"outlast took {bill.functions} functions; for {bill.idle_s:.1f} s of CI there was none.",
        highlight=False,
    )
    if bill.ok:
        console.print("every promise held")
    for sentence in bill.broken:
        console.print(f"broken: {sentence}", style="red")
