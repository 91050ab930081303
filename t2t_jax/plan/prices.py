"""Prices of a chip-hour, from a dated file that is refused once it is old."""

import datetime
from pathlib import Path
from typing import Any, NamedTuple

from t2t_jax.json_files import read_json

PRICES = Path(__file__).with_name("prices.json")
MOST_DAYS = 180


class Price(NamedTuple):
    """Dollars for an hour of one chip; None if the file has no price."""

    on_demand: float | None
    spot: float | None


class Prices(NamedTuple):
    """The contents of the file."""

    by_chip: dict[str, Price]
    read: datetime.date
    words: str  # the date and the sources, in a line

    def of(self, chip: str) -> Price:
        """The price of a chip by its name, such as v5e."""
        return self.by_chip.get(chip, Price(None, None))


def read_prices(
    path: Path = PRICES, *, today: datetime.date | None = None, may_be_old: bool = False
) -> Prices:
    """The prices in a file.

    Raises:
      ValueError: it is damaged, or older than 180 days without `may_be_old`; says where to look.
    """
    values = read_json(path)
    try:
        read = datetime.date.fromisoformat(values["read"])
        chips = {name: _price(name, entry) for name, entry in values["chips"].items()}
        sources = dict.fromkeys(entry["source"] for entry in values["chips"].values())
        where = "; ".join(f"{kind}: {place}" for kind, place in values["look_up"].items())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        lacks = "it lacks " if isinstance(error, KeyError) else ""
        raise ValueError(f"{path} is not a list of prices: {lacks}{error}") from error
    days = ((today or datetime.date.today()) - read).days
    if days > MOST_DAYS and not may_be_old:
        raise ValueError(
            f"the prices of {path} were read {days} days ago, on {read}: look them up anew "
            f"({where}) and give them as --prices=FILE of the same form, or take them as they are "
            "with --old_prices"
        )
    return Prices(chips, read, f"prices read on {read}, of {'; '.join(sources)}")


def _price(name: str, entry: dict[str, Any]) -> Price:
    price = Price(entry["on_demand"], entry["spot"])
    for value in price:
        if value is not None and (type(value) not in (int, float) or not value > 0):
            raise ValueError(f"{name} has the price {value!r}, which must be above 0 or null")
    return price
