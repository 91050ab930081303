"""Prompts into texts, by a language model that is loaded."""

from collections.abc import Sequence
from functools import partial

from t2t_jax.compilation import compile_by_row
from t2t_jax.decoding.generate import Generation, Generator
from t2t_jax.decoding.sampling import Sampling
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.runs.families import wrong_verb
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
    """The `num_samples` continuations of each prompt, by a model that is loaded.

    Raises:
      ValueError: the model is no language model, a number is not allowed, or a prompt is too long.
    """
    if not isinstance(trained.model, LanguageModel):
        raise wrong_verb(trained.model, "generate")
    generator = Generator(
        trained.model,
        trained.params,
        trained.vocabulary,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        top_n=top_n,
        tokens_per_batch=trained.sections.decoding.tokens_per_batch,
        compile=partial(compile_by_row, trained.devices),
        row_multiple=trained.devices.num_data,
        opens_with_start=trained.opens_with_start,
    )
    if len(prompts) == 1:
        return generator(prompts, num_samples=num_samples, seed=seed)
    with Progress("generate", len(prompts) * num_samples) as progress:
        return generator(
            prompts,
            num_samples=num_samples,
            seed=seed,
            progress=lambda done, _: progress.update(done, "texts"),
        )
