"""Sentences in, classes out, whole files at a time.

Axes: B sentences, T positions.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, START_ID, Vocabulary
from t2t_jax.decoding.length_batches import (
    LengthBatch,
    batches_by_length,
    check_lengths,
    padded_ids,
    worked_ahead,
)
from t2t_jax.made_once import made_once
from t2t_jax.model.classifier import Classifier

_Classify = Callable[[PyTree, Int[Array, "B T"]], Float[Array, "B num_classes"]]


class Classification(NamedTuple):
    """The predicted class of a sentence."""

    name: str  # of the likeliest class
    probability: float
    probabilities: tuple[float, ...]  # of every class


class SentenceClassifier:
    """Classifies sentences with one model, in batches of similar length.

    Args:
      model: called with the ids of sentences, start and end token included.
      params: of `model`.
      vocabulary: the one `model` was trained with.
      class_names: the name of every class, in the order of the model's logits.
      compile: compiles the forward pass, such as `jax.jit`. Rows are independent, so it may also
        split them over devices.
      tokens_per_batch: longest sentence times rows at once, padding included.
      row_multiple: every batch has a multiple of this many rows, for a `compile` that splits them.

    Raises:
      ValueError: the number of names differs from that of classes.
    """

    def __init__(
        self,
        model: Classifier,
        params: PyTree,
        vocabulary: Vocabulary,
        class_names: Sequence[str],
        *,
        compile: Callable[[_Classify], _Classify],
        tokens_per_batch: int = 8_192,
        row_multiple: int = 1,
    ) -> None:
        config = model.config
        if len(class_names) != config.num_classes:
            raise ValueError(
                f"{len(class_names)} class names for model.num_classes={config.num_classes}: "
                "there must be one each"
            )
        self._params = params
        self._vocabulary = vocabulary
        self._class_names = tuple(class_names)
        self._tokens_per_batch = tokens_per_batch
        self._row_multiple = row_multiple
        self._shapes: set[tuple[int, int]] = set()  # of batches compiled so far
        self._max_positions = config.longest_sequence
        self._classify = compile(_make_classify(model))

    def __call__(
        self,
        sentences: Sequence[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Classification | None]:
        """The class of each sentence, in the order of the input; None for a line without tokens.

        Args:
          sentences: one string each.
          progress: called with (sentences done, sentences) now and then.

        Raises:
          ValueError: a sentence is longer than the model's learned positions, or the model diverged
            in training.
        """
        ids = self._vocabulary.encode(list(sentences))
        rows = [[START_ID, *tokens, END_ID] if tokens else [] for tokens in ids]
        check_lengths(rows, self._max_positions, counted="start and end token")
        batches = batches_by_length(
            [len(row) for row in rows],
            tokens_per_batch=self._tokens_per_batch,
            row_multiple=self._row_multiple,
            max_length=self._max_positions,
            shapes=self._shapes,
        )

        def start(batch: LengthBatch) -> Float[Array, "B num_classes"]:
            return self._classify(self._params, jnp.asarray(padded_ids(batch, rows)))

        classes: list[Classification | None] = [None] * len(rows)
        num_done = sum(not row for row in rows)
        for batch, probabilities in worked_ahead(batches, start):
            for place, row in zip(batch.places, np.asarray(probabilities).tolist(), strict=False):
                if not all(map(math.isfinite, row)):
                    raise ValueError(
                        "the model's probabilities are NaN: it diverged in training and cannot "
                        "classify"
                    )
                best = max(range(len(row)), key=row.__getitem__)
                classes[place] = Classification(self._class_names[best], row[best], tuple(row))
            num_done += len(batch.places)
            if progress is not None:
                progress(num_done, len(rows))
        return classes


@made_once
def _make_classify(model: Classifier) -> _Classify:
    def classify(params: PyTree, ids: Int[Array, "B T"]) -> Float[Array, "B num_classes"]:
        return jax.nn.softmax(model.bind({"params": params})(ids, deterministic=True))

    return classify
