"""What models cost may be said in a file of the user's own; whatever else it says is refused with the place."""

from pathlib import Path

import pytest

from outlast.errors import BadSettings
from outlast.gateway import every_dialect
from outlast.prices import LIST_PRICES, Price, PriceTable, find_price, prices_of, read_prices
from outlast.records import Usage
from outlast.settings import Settings, read_settings

TOML = """
[anthropic."claude-opus-5"]
input = 1
output = 2.5
cache_read = 0.5

[openai."my-model"]
input = 3.0
output = 4.0
cache_write = 6.0
"""


def written(tmp_path: Path, text: str, name: str = "prices.toml") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def test_a_file_of_ones_own_goes_before_the_list_prices(tmp_path: Path) -> None:
    table = prices_of(Settings(prices_file=str(written(tmp_path, TOML))))
    assert table.anthropic["claude-opus-5"] == Price(1, 2.5, 0.5, 1, 1)
    assert table.openai["my-model"] == Price(3, 4, 3, 6, 6)
    assert find_price("claude-sonnet-5", table.anthropic) == LIST_PRICES["claude-sonnet-5"]


def test_alone_it_leaves_nothing_of_the_list(tmp_path: Path) -> None:
    table = read_prices(written(tmp_path, f"alone = true\n{TOML}"))
    assert set(table.anthropic) == {"claude-opus-5"}
    assert find_price("claude-sonnet-5", table.anthropic) is None


def test_the_same_may_be_said_in_json(tmp_path: Path) -> None:
    text = '{"openai": {"my-model": {"input": 3, "output": 4}}}'
    table = read_prices(written(tmp_path, text, "prices.json"))
    assert table.openai["my-model"] == Price(3, 4, 3, 3, 3)


def test_without_a_file_the_list_prices_hold() -> None:
    assert prices_of(Settings()) == PriceTable()


def test_the_gateway_counts_by_the_file(tmp_path: Path) -> None:
    messages = every_dialect(read_prices(written(tmp_path, TOML)))[0]
    answer = {"model": "claude-opus-5", "usage": {"input_tokens": 1_000_000, "output_tokens": 2_000_000}}
    assert messages.usage(answer, "claude-opus-5") == Usage(1_000_000, 2_000_000, cost_usd=6.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[anthropic."m"]\ninput = 1', "missing required field `output` - at `$.anthropic[...]`"),
        ('[anthropic."m"]\ninput = -1\noutput = 1', ">= 0"),
        ('[anthropic."m"]\ninput = "1"\noutput = 1', "got `str`"),
        ('[anthropic."m"]\ninput = nan\noutput = 1', "Expected `float`"),
        ('[google."m"]\ninput = 1\noutput = 1', "unknown field `google`"),
        ("input = ", "it is no TOML"),
    ],
)
def test_what_is_no_price_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(BadSettings, match="prices_file") as refused:
        read_prices(file)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="cannot be read"):
        read_prices(tmp_path / "none.toml")


def test_the_file_of_a_directory_may_not_name_it(tmp_path: Path) -> None:
    (tmp_path / "outlast.toml").write_text('prices_file = "/x.toml"')
    with pytest.raises(BadSettings, match="a directory's file may not set it"):
        read_settings({}, cwd=tmp_path)
