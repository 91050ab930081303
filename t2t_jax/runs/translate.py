"""Translates sentences with a loaded model."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from t2t_jax.compilation import ByRow
from t2t_jax.decoding.long_lines import CountTokens, LongLines, parts_of, refusing_long_lines
from t2t_jax.decoding.translate import Translation, Translator
from t2t_jax.model.interface import TranslationModel
from t2t_jax.runs.families import wrong_verb
from t2t_jax.runs.limits import line_limit, long_line_advice, token_counter
from t2t_jax.runs.workdir import UsableModel
from t2t_jax.training.progress import Progress


def translate(trained: UsableModel, sentences: Sequence[str]) -> list[list[Translation]]:
    """The n best translations of each sentence.

    Raises:
      ValueError: the model does not translate, or a sentence is too long for it.
    """
    translator = make_translator(trained)
    with Progress("translate", len(sentences)) as progress:
        found = translator(sentences, lambda done, _: progress.update(done, "sentences"))
        _tell_what_diverged(found, progress)
        return found


def translate_lines(
    trained: UsableModel, windows: Iterable[Sequence[str]], long_lines: LongLines = "split"
) -> Iterator[list[Translation]]:
    """Yields the n best translations of each line, in order; finishes a window before the next.

    A line with more tokens than the model was trained on is translated sentence by sentence, and
    a sentence that is itself too long in halves; this is logged. The n-th best of the line is then
    made of the n-th best of each part, and its score is the sum of theirs.

    Args:
      windows: lines that go through the model together.
      long_lines: "refuse" raises ValueError at such a line, after yielding the earlier ones.

    Raises:
      ValueError: the model does not translate.
    """
    translator = make_translator(trained)
    limit = line_limit(trained)
    count_tokens = token_counter(trained, num_added=1)  # the end token
    if long_lines == "refuse":
        windows = refusing_long_lines(windows, count_tokens, limit, long_line_advice(limit))

    with Progress("translate", None) as progress:
        num_lines = num_done = 0
        for lines in windows:
            parts = [[line] for line in lines]
            too_long = {
                place: num_tokens
                for place, num_tokens in enumerate(count_tokens(list(lines)))
                if num_tokens > limit.most
            }
            for place in too_long:
                parts[place] = _parts_of(trained, lines[place], count_tokens, limit.most)
            if too_long:
                first, num_tokens = next(iter(too_long.items()))
                progress.log(
                    f"line {num_lines + first + 1:,} has {num_tokens:,} tokens, more than "
                    f"{limit.key}={limit.most}: translated in {len(parts[first]):,} parts"
                    f"{_others_text(len(too_long) - 1, num_lines + len(lines))}"
                )
            all_parts = list(itertools.chain.from_iterable(parts))
            update = partial(_update, progress, num_done)
            all_found = translator(all_parts, update)
            _tell_what_diverged(all_found, progress)
            found = iter(all_found)
            for of_line in parts:
                yield _joined(list(itertools.islice(found, len(of_line))))
            num_lines += len(lines)
            num_done += len(all_parts)


def _parts_of(trained: UsableModel, line: str, count_tokens: CountTokens, most: int) -> list[str]:
    """The parts of a line, each with the language code that the line begins with, if it does."""
    code = trained.vocabulary.language_code(line)
    prefix = f"{code} " if code else ""

    def count_with_code(parts: list[str]) -> list[int]:
        return count_tokens([prefix + part for part in parts])

    parts = parts_of(line.removeprefix(code), count_with_code, most)
    return [prefix + part for part in parts]


def _tell_what_diverged(found: Sequence[Sequence[Translation]], progress: Progress) -> None:
    number = sum(math.isinf(best[0].score) for best in found)
    if number:
        progress.log(
            f"{number:,} of {len(found):,} sentences have no translation: the model's "
            "probabilities are NaN, so its training has diverged"
        )


def _others_text(number: int, last: int) -> str:
    """Says how many more lines up to line `last` are too long."""
    if number == 0:
        return ""
    return f"; {number:,} more line{' is' if number == 1 else 's are'} too long up to line {last:,}"


def _update(progress: Progress, num_before: int, done: int, _: int) -> None:
    progress.update(num_before + done, "sentences")


def _joined(parts: list[list[Translation]]) -> list[Translation]:
    """The n best of a line, from those of its parts; a part with fewer repeats its last."""
    if len(parts) == 1:
        return parts[0]
    joined = []
    for rank in range(max(map(len, parts))):
        of_rank = [best[min(rank, len(best) - 1)] for best in parts]
        text = " ".join(translation.text for translation in of_rank if translation.text)
        joined.append(Translation(text, sum(translation.score for translation in of_rank)))
    return joined


def make_translator(trained: UsableModel, *, in_stages: bool | None = None) -> Translator:
    """The translator that `translate` uses, for repeated calls; `in_stages` as in `Translator`.

    Raises:
      ValueError: the model does not translate.
    """
    if not isinstance(trained.model, TranslationModel):
        raise wrong_verb(trained.model, "translate")
    return Translator(
        trained.model,
        trained.params,
        trained.vocabulary,
        trained.sections.decoding,
        compile=partial(ByRow, trained.devices),
        row_multiple=trained.devices.num_data,
        in_stages=in_stages,
    )
