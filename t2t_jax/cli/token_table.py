"""Prints what a language model wrote: the likeliest next tokens, then the text."""

import json
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from t2t_jax.decoding.generate import Generation, Token

_BAR_WIDTH = 24  # characters, for probability 1
_EIGHTHS = " ▏▎▍▌▋▊▉"
# Outside a terminal: wide enough that no line is ever wrapped.
_FILE_WIDTH = 10_000


def print_texts(
    output: TextIOWrapper,
    generations: Iterable[tuple[str, Sequence[Generation]]],
    *,
    as_json: bool = False,
) -> None:
    """Prints each prompt's continuations: tokens and text, or only the text if top_n was 0."""
    console = make_console(output)
    is_first = True
    for prompt, samples in generations:
        for number, generation in enumerate(samples, start=1):
            if as_json:
                values = _json_values(prompt, number, generation)
                print(json.dumps(values, ensure_ascii=False), file=output)
            elif not any(token.best for token in generation.tokens):
                print(generation.text, file=output)
            else:
                if not is_first:
                    print(file=output)
                heading = prompt if len(samples) == 1 else f"{prompt}  (sample {number})"
                print_generation(console, heading, generation)
            is_first = False


def _json_values(prompt: str, sample: int, generation: Generation) -> dict[str, Any]:
    """Everything known about one continuation."""
    return {
        "prompt": prompt,
        "sample": sample,
        "text": generation.text,
        "has_ended": generation.has_ended,
        "tokens": [
            token.chosen._asdict() | {"best": [candidate._asdict() for candidate in token.best]}
            for token in generation.tokens
        ],
    }


def make_console(output: TextIOWrapper) -> Console:
    """Colours and bars if `output` is a terminal, else plain lines."""
    width = None if output.isatty() else _FILE_WIDTH
    return Console(file=output, width=width, highlight=False, markup=False, emoji=False)


def print_generation(console: Console, heading: str, generation: Generation) -> None:
    """Prints a heading, the table of the tokens and the finished text."""
    console.print(Text(heading, style="dim"), soft_wrap=True)
    console.print()
    console.print(token_table(generation.tokens, with_bars=console.is_terminal))
    console.print()
    console.print(Text(generation.text, style="bold"), soft_wrap=True)
    if not generation.has_ended:
        note = f"(not at its end: max_new_tokens={len(generation.tokens)})"
        console.print(Text(note, style="dim"), soft_wrap=True)


def token_table(tokens: list[Token], *, with_bars: bool) -> Table:
    """One row per candidate; `>` marks the chosen one, a number the first row of each token."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", style="dim")
    table.add_column("", style="bold green")
    table.add_column("token", no_wrap=True)
    table.add_column("logit", justify="right", no_wrap=True)
    table.add_column("probability", justify="right", no_wrap=True)
    if with_bars:
        table.add_column("", min_width=_BAR_WIDTH, no_wrap=True, style="cyan")
    for number, token in enumerate(tokens, start=1):
        candidates = token.best
        if token.chosen.id not in [candidate.id for candidate in candidates]:
            candidates = [*candidates, token.chosen]
        for rank, candidate in enumerate(candidates):
            is_chosen = candidate.id == token.chosen.id
            cells = [
                str(number) if rank == 0 else "",
                ">" if is_chosen else "",
                Text(_shown(candidate.piece), style="bold" if is_chosen else ""),
                f"{candidate.logit:.2f}",
                _percent(candidate.probability),
            ]
            table.add_row(*cells, *([_bar(candidate.probability)] if with_bars else []))
    return table


def _percent(probability: float) -> str:
    return "< 0.01 %" if probability < 5e-5 else f"{100 * probability:.2f} %"


def _bar(probability: float) -> str:
    full, eighths = divmod(round(8 * _BAR_WIDTH * probability), 8)
    return "█" * full + _EIGHTHS[eighths].strip()


def _shown(piece: str) -> str:
    """The piece on one line, whatever its characters."""
    return piece if piece.isprintable() else piece.encode("unicode_escape").decode("ascii")
