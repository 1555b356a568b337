"""The example's own test, run as it stands, and what its page says of it."""

from pathlib import Path

from examples import kill_refund

test_an_order_is_refunded_once = kill_refund.test_an_order_is_refunded_once

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs/internals/points.md").read_text()
    code = Path(kill_refund.__file__).read_text()
    shown = page.partition("```python\n# examples/kill_refund.py\n")[2].partition("```")[0]
    assert shown.strip()
    assert shown.strip() in code
