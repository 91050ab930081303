"""The style of pictures: readable for colour-blind readers, and in black and white."""

from typing import Any

from matplotlib import rc_context

# Okabe and Ito's colours without yellow, which is too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
GREY = "#767676"


def fonts() -> Any:
    """The context for drawing and saving."""
    return rc_context(
        {
            "font.size": 10,
            # A dollar sign in a text begins no formula.
            "text.parse_math": False,
            # The same text gives the same file.
            "svg.hashsalt": "t2t_jax",
        }
    )
