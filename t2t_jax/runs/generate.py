"""Continues prompts with a loaded language model."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from t2t_jax.compilation import ByRow
from t2t_jax.decoding.generate import Generation, Generator
from t2t_jax.decoding.long_lines import LineLimit, refusing_long_lines
from t2t_jax.decoding.sampling import Sampling
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.runs.families import wrong_verb
from t2t_jax.runs.limits import line_limit, long_line_advice, token_counter
from t2t_jax.runs.workdir import UsableModel
from t2t_jax.training.progress import Progress


def generate(
    trained: UsableModel,
    prompts: Sequence[str],
    *,
    max_new_tokens: int,
    sampling: Sampling,
    seed: int = 0,
    num_samples: int = 1,
    top_n: int = 0,
) -> list[list[Generation]]:
    """`num_samples` continuations of each prompt.

    Raises:
      ValueError: this is not a language model, a number is not allowed, or a prompt is too long.
    """
    generator = _generator(trained, max_new_tokens, sampling, top_n)
    [prompts] = _refusing(trained, [prompts], line_limit(trained), "prompt")
    if len(prompts) == 1:
        return generator(prompts, num_samples=num_samples, seed=seed)
    with Progress("generate", len(prompts) * num_samples) as progress:
        return generator(
            prompts,
            num_samples=num_samples,
            seed=seed,
            progress=lambda done, _: progress.update(done, "texts"),
        )


def generate_lines(
    trained: UsableModel,
    windows: Iterable[Sequence[str]],
    *,
    max_new_tokens: int,
    sampling: Sampling,
    seed: int = 0,
    num_samples: int = 1,
    top_n: int = 0,
) -> Iterator[tuple[str, list[Generation]]]:
    """Yields each line with its continuations, in order; finishes a window before the next.

    Raises:
      ValueError: as `generate`; on reaching it, a line is longer than any the model was trained on.
    """
    generator = _generator(trained, max_new_tokens, sampling, top_n)
    limit = line_limit(trained)
    if (longest := trained.model.config.longest_sequence) is not None:
        most = max(longest - max_new_tokens + 1, 0)  # the last generated token is never read
        if most < limit.most:
            words = (
                f"the {most} that model.max_positions={longest} leaves beside "
                f"--max_new_tokens={max_new_tokens}"
            )
            limit = LineLimit(most, "max_new_tokens", words)
    windows = _refusing(trained, windows, limit, "line")
    with Progress("generate", None) as progress:
        first = 0
        for prompts in windows:
            found = generator(prompts, num_samples=num_samples, seed=seed, first=first)
            yield from zip(prompts, found, strict=True)
            first += len(prompts)
            progress.update(first * num_samples, "texts")


def _refusing(
    trained: UsableModel, windows: Iterable[Sequence[str]], limit: LineLimit, name: str
) -> Iterator[Sequence[str]]:
    """The windows, up to a text that is too long, or too short to go on from."""
    if not trained.opens_with_start:
        windows = _refusing_blank_texts(windows, name)
    count_tokens = token_counter(trained, num_added=int(trained.opens_with_start))
    return refusing_long_lines(windows, count_tokens, limit, long_line_advice(limit), name=name)


def _refusing_blank_texts(windows: Iterable[Sequence[str]], name: str) -> Iterator[Sequence[str]]:
    num_before = 0
    for texts in windows:
        for place, text in enumerate(texts):
            if not text.strip():
                if place:
                    yield texts[:place]
                raise ValueError(
                    f"{name} {num_before + place + 1:,} is blank: this model knows no start token, "
                    "so it needs at least one word to go on from"
                )
        yield texts
        num_before += len(texts)


def _generator(
    trained: UsableModel, max_new_tokens: int, sampling: Sampling, top_n: int
) -> Generator:
    if not isinstance(trained.model, LanguageModel):
        raise wrong_verb(trained.model, "generate")
    return Generator(
        trained.model,
        trained.params,
        trained.vocabulary,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        top_n=top_n,
        tokens_per_batch=trained.sections.decoding.tokens_per_batch,
        compile=partial(ByRow, trained.devices),
        row_multiple=trained.devices.num_data,
        opens_with_start=trained.opens_with_start,
    )
