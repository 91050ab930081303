"""Counts of faults: a line in the table of `python -m tests.faults`."""

from typing import NamedTuple


class Count(NamedTuple):
    """How often something was tried, and how often nothing was lost and nothing wrong believed."""

    what: str
    tried: int
    lost: tuple[str, ...] = ()  # what did not hold, with what repeats it
    remark: str = ""
    skipped: str = ""  # why it was not tried
    in_time: int | None = None  # how often a process ended or resumed of it; None: not known

    @property
    def line(self) -> str:
        """The count as a line of a Markdown table."""
        held = f"skipped: {self.skipped}" if self.skipped else f"{self.tried - len(self.lost)}"
        return f"| {self.what} | {self.tried} | {held} | {self.remark} |"
