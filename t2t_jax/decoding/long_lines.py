"""Lines longer than anything a model was trained on: split into parts, or refused.

In: lines of text. Out: parts that are short enough, or the lines as they are.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

LongLines = Literal["split", "refuse"]

# The space after a full stop or the like and a closing quotation mark; after a full-width one,
# which has no space, the position itself.
_SENTENCE_END = re.compile(
    r"""(?<=[.!?…])\s+|(?<=[.!?…]["'”’»)\]])\s+"""
    r"""|(?<=[。！？])(?![。！？」』”’）])|(?<=[。！？][」』”’）])"""
)

CountTokens = Callable[[list[str]], list[int]]


class LineLimit(NamedTuple):
    """How long a line may be."""

    most: int  # tokens, special ones included
    key: str  # the config key that says so, or the flag
    words: str = ""  # instead of "KEY=MOST, the longest that the model has learned from"


def parts_of(line: str, count_tokens: CountTokens, most: int) -> list[str]:
    """The sentences of a line; one with more than `most` tokens is halved at a space.

    Without a space, a sentence is cut in the middle.
    """
    parts = []
    for sentence in filter(None, _SENTENCE_END.split(line)):
        parts += _halves(sentence, count_tokens, most)
    return parts


def _halves(text: str, count_tokens: CountTokens, most: int) -> list[str]:
    (num_tokens,) = count_tokens([text])
    if num_tokens <= most or len(text) < 2:
        return [text]
    middle = len(text) // 2
    spaces = [match.start() for match in re.finditer(r"(?<=\S)\s", text)]
    cut = min(spaces, key=lambda place: abs(place - middle), default=middle)
    halves = text[:cut].strip(), text[cut:].strip()
    if not all(halves):
        halves = text[:middle], text[middle:]
    return [part for half in halves for part in _halves(half, count_tokens, most)]


def refusing_long_lines(
    windows: Iterable[Sequence[str]],
    count_tokens: CountTokens,
    limit: LineLimit,
    advice: str,
    *,
    name: str = "line",
) -> Iterator[Sequence[str]]:
    """The same windows; at a line that is too long, the lines before it, then an error.

    Raises:
      ValueError: a line is too long; names it and gives the advice.
    """
    num_before = 0
    for lines in windows:
        for place, num_tokens in enumerate(count_tokens(list(lines))):
            if num_tokens > limit.most:
                if place:
                    yield lines[:place]
                most = limit.words or (
                    f"{limit.key}={limit.most}, the longest that the model has learned from"
                )
                where = f"{name} {num_before + place + 1:,}"
                raise ValueError(f"{where} has {num_tokens:,} tokens, more than {most}: {advice}")
        yield lines
        num_before += len(lines)
