"""Prices are dated, and refused once they are old."""

import datetime
import json

import pytest

from t2t_jax.plan.hardware import CHIPS
from t2t_jax.plan.prices import PRICES, Price, read_prices

READ = datetime.date.fromisoformat(json.loads(PRICES.read_text())["read"])


def test_the_prices_that_come_with_the_code_are_of_chips_that_there_are():
    prices = read_prices(today=READ)
    assert set(prices.by_chip) <= set(CHIPS)
    assert prices.of("v5e") == Price(1.2, 0.2449)
    assert prices.of("a chip of tomorrow") == Price(None, None)
    assert str(READ) in prices.words


def test_prices_of_180_days_ago_are_taken_and_a_day_later_refused():
    read_prices(today=READ + datetime.timedelta(days=180))
    late = READ + datetime.timedelta(days=181)
    with pytest.raises(ValueError, match=r"181 days ago.*cloud\.google\.com/tpu/pricing.*--prices"):
        read_prices(today=late)
    assert read_prices(today=late, may_be_old=True).of("v4").on_demand == 3.22


@pytest.mark.parametrize("price", [0, -1, "1.2", True])
def test_what_is_no_price_is_refused(tmp_path, price):
    values = json.loads(PRICES.read_text())
    values["chips"]["v4"]["spot"] = price
    (tmp_path / "prices.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match="v4 has the price"):
        read_prices(tmp_path / "prices.json", today=READ)


def test_a_file_without_a_date_is_refused(tmp_path):
    (tmp_path / "prices.json").write_text('{"chips": {}}')
    with pytest.raises(ValueError, match="is not a list of prices"):
        read_prices(tmp_path / "prices.json")
