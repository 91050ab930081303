"""Removes heads after training: how many does a model need that was trained with all of them?

    python -m experiments.inspect.pruning W/heads/base/seed-0
    python -m experiments.inspect.pruning W/heads/base/seed-0 --shares=0.5,0.9 --split=dev

The least important heads go first. Importance is the mean over dev batches of |dL / d xi_h|, xi_h a
factor on the head's output (Michel et al. 2019). Since that output enters the layer through the
head's rows of the output kernel, W_h, it is |<dL / dW_h, W_h>|. As in Michel et al., importances
are divided by their norm over each attention. Removing a head sets W_h to zero.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from absl import app, flags

from experiments.run.plain_text import counted
from t2t_jax.cli.command import parse_flags

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    import jax
    from jaxtyping import PyTree

    from t2t_jax.training.loss import LossFn

_BATCHES = 20

_Keys = tuple[str, ...]


class Head(NamedTuple):
    """One head of one attention."""

    path: _Keys  # of the attention's parameters
    number: int
    importance: float


def importances(loss_fn: "LossFn", params: "PyTree", batches: Sequence[Any]) -> list[Head]:
    """Every head of the model, least important first."""

    import jax
    import jax.numpy as jnp

    @jax.jit
    def of_batch(params, batch):
        grads = jax.grad(lambda params: loss_fn(params, batch, None)[0])(params)
        return [
            jnp.abs(jnp.einsum("HVD,HVD->H", grad, kernel))
            for grad, kernel in zip(
                *(_kernels(tree).values() for tree in (grads, params)), strict=True
            )
        ]

    of_batches = [jax.device_get(of_batch(params, batch)) for batch in batches]
    heads = []
    for path, each in zip(_kernels(params), zip(*of_batches, strict=True), strict=True):
        mean = np.mean(each, axis=0)
        mean = mean / max(np.linalg.norm(mean), np.finfo(np.float32).tiny)
        heads += [Head(path, number, float(value)) for number, value in enumerate(mean)]
    return sorted(heads, key=lambda head: head.importance)


def without(params: "PyTree", heads: Sequence[Head]) -> "PyTree":
    """The parameters, with the output of these heads set to zero."""
    import jax

    pruned: Any = jax.tree.map(np.array, params)
    for head in heads:
        attention: Any = functools.reduce(lambda tree, key: tree[key], head.path, pruned)
        attention["output"]["kernel"][head.number] = 0
    return pruned


def _kernels(params: "PyTree") -> "dict[_Keys, jax.Array]":
    """The output kernel of every attention, [H V D], by the path of the attention."""
    from flax.traverse_util import flatten_dict

    leaves: Any = flatten_dict(params)
    output = ("output", "kernel")
    return {
        path[:-2]: leaves[path]
        for path in sorted(leaves)  # JAX's order, which a compiled function has too
        if path[-2:] == output and (*path[:-2], "query", "kernel") in leaves
    }


def table(directory: Path, shares: Sequence[float], split: str) -> str:
    """Perplexity and BLEU of a trained run without these shares of its heads.

    Raises:
      ValueError: the directory has no trained Transformer that translates, a share is not in
        [0, 1], or the corpus does not give the vocabulary that the model was trained with.
    """
    from t2t_jax.data.corpora.corpus import read_pairs
    from t2t_jax.evaluation.bleu import bleu
    from t2t_jax.model.interface import TranslationModel
    from t2t_jax.runs.batches import evaluation_batches
    from t2t_jax.runs.score import corpus_of
    from t2t_jax.runs.steps import make_evaluate
    from t2t_jax.runs.translate import translate
    from t2t_jax.runs.workdir import load_trained
    from t2t_jax.training.loss import make_loss_fn, perplexity

    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError(f"--shares: {share} must lie between 0 and 1")
    trained = load_trained(directory)
    if not isinstance(trained.model, TranslationModel):
        raise ValueError(
            f"{directory} holds a model that does not translate, so that no BLEU can be computed"
        )
    if not _kernels(trained.params):
        raise ValueError(f"{directory} holds a {trained.sections.model.family} model without heads")
    prepared = corpus_of(directory, trained, [split])
    batches = evaluation_batches(prepared, "dev", trained.sections, trained.devices)
    # Evenly spaced: the shortest sentences come first.
    count = min(_BATCHES, batches.batches_per_epoch)
    places = [i * batches.batches_per_epoch // count for i in range(count)]
    heads = importances(
        make_loss_fn(trained.model, 0.0), trained.params, [batches[i] for i in places]
    )
    evaluate = make_evaluate(trained.sections, trained.devices, trained.model, prepared, split)
    sources, references = map(list, zip(*read_pairs(trained.sections.data, split), strict=True))
    of_what = f"of {split}, {counted(len(heads), 'head')}"
    lines = [f"{'share':>6} {'heads':>6} {'PPL':>8} {'BLEU':>6}   {of_what}"]
    for share in shares:
        number = round(share * len(heads))
        params = trained.devices.put(without(trained.params, heads[:number]))
        best = translate(trained._replace(params=params), sources)
        score = bleu(
            [each[0].text for each in best],
            references,
            tokenizer=trained.sections.evaluation.bleu_tokenizer,
            lowercase=trained.sections.evaluation.bleu_lowercase,
        ).score
        lines.append(
            f"{share:>6.0%} {number:>6} {perplexity(evaluate(params)):>8.3f} {score:>6.1f}"
        )
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Runs the command."""
    if len(argv) != 2:
        sys.exit("pruning: one argument is needed, the directory of a trained run; see --help")
    values = flags.FLAGS
    try:
        shares = [float(share) for share in values.shares]
        print(table(Path(argv[1]), shares, values.split))
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"pruning: {error}")


if __name__ == "__main__":
    flags.DEFINE_list("shares", ["0", "0.1", "0.2", "0.4", "0.6", "0.8"], "shares of all heads")
    flags.DEFINE_string("split", "test", "split to score on")
    app.run(main, flags_parser=functools.partial(parse_flags, "pruning"))
