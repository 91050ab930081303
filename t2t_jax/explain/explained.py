"""A sentence and a loaded model -> the document that shows both."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Float, PyTree

from t2t_jax.data.vocabulary.vocabulary import END_ID, MASK_ID, START_ID
from t2t_jax.decoding.sampling import Sampling
from t2t_jax.decoding.search_tree import search_tree
from t2t_jax.decoding.translate import TranslationDecoder
from t2t_jax.explain.document import Candidate, Class, Document, Search, Step, Token
from t2t_jax.explain.heard import hear
from t2t_jax.explain.stacks import Loaded, layouts, pooling_attention, stack_of
from t2t_jax.model.classifier import Classifier
from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.families import initial_params, make_model, num_parameters
from t2t_jax.model.interface import TranslationModel
from t2t_jax.model.language_model import LanguageModel
from t2t_jax.row_keys import GENERATOR
from t2t_jax.runs.effect import unmet
from t2t_jax.runs.families import check_is_one
from t2t_jax.runs.generate import generate
from t2t_jax.runs.limits import line_limit
from t2t_jax.runs.workdir import UsableModel

# Positions shown of the three kinds of sinusoids on every page.
_POSITIONS_OF_LAYOUTS = 50
# Arrays grow with its square: a page is for a sentence.
MOST_TOKENS = 128
# Keys of the model to show beside its pictures.
_FACTS = (
    *("family", "num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "d_k"),
    *("positions", "norm", "activation", "recurrent_cell"),
)
_CONTROL_SEED = 0
_PROJECTIONS = ("query", "key", "value")


class _Read(NamedTuple):
    """The tokens that a model reads."""

    source: list[int]  # by its encoder
    inputs: list[int]  # by its decoder
    outputs: list[int]  # the token after each of the inputs
    num_given: int = 0  # outputs that the model did not choose


def explain(
    trained: UsableModel,
    text: str,
    *,
    label: str = "model",
    top_n: int = 5,
    max_new_tokens: int = 12,
) -> Document:
    """The document of `trained` on a sentence, or on the beginning of a text.

    Args:
      label: the name of the model.
      top_n: likeliest next tokens to show per step.
      max_new_tokens: for a language model, most tokens after the text.

    Raises:
      ValueError: the text has no tokens or too many, a number is too small, or the model
        diverged or is an ensemble.
    """
    if not 1 <= top_n < trained.vocabulary.size:
        raise ValueError(f"top_n={top_n} must be from 1 to {trained.vocabulary.size - 1}")
    check_is_one(trained.model, label)
    loaded = _loaded(trained)
    ids = _ids(trained, text)
    searches: list[Search] = []
    if isinstance(trained.model, TranslationModel):
        searches = _searches(trained, trained.model, loaded, ids)
        best = searches[-1].tree.best_ids
        read = _Read(ids, [START_ID, *best[:-1]], best)
    elif isinstance(trained.model, LanguageModel):
        (written,) = generate(
            trained,
            [text],
            max_new_tokens=max_new_tokens,
            sampling=Sampling(temperature=0.0),
        )[0]
        whole = ids + [token.chosen.id for token in written.tokens]
        read = _Read([], whole[:-1], whole[1:], len(ids) - 1)
    else:
        read = _Read(ids, [], [])
    found = _document(loaded, read, text, label, top_n, trained.classes)
    facts = dict(found.facts)
    if (step := getattr(trained, "step", None)) is not None:
        facts["step"] = step
    return found._replace(facts=facts, searches=searches)


def explain_control(
    trained: UsableModel, document: Document, *, label: str = "control"
) -> Document:
    """`document` again, with random projections for queries, keys and values.

    The model reads exactly the tokens of `document`, even those that it would not have written, so
    that the two can be compared. Nothing is searched.

    Raises:
      ValueError: the model has no attention.
    """
    loaded = _loaded(trained)
    config = loaded.model.config
    if config.family == "recurrent" and not config.recurrent_attention:
        raise ValueError("--control draws the projections of attention; this model has none")
    drawn = initial_params(loaded.model, jax.random.key(_CONTROL_SEED, impl=GENERATOR))
    loaded = loaded._replace(params=_with_drawn_projections(loaded.params, drawn))
    encoder, decoder = document.stack("encoder"), document.stack("decoder")
    read = _Read(
        [token.id for token in encoder.tokens] if encoder else [],
        [token.id for token in decoder.tokens] if decoder else [],
        [step.chosen.token.id for step in document.steps] if decoder else [],
        sum(step.is_given for step in document.steps),
    )
    top_n = len(document.steps[0].best) if document.steps else 1
    found = _document(loaded, read, document.text, label, top_n, trained.classes)
    return found._replace(is_control=True)


def _loaded(trained: UsableModel) -> Loaded:
    """The model, built so that everything can be captured."""
    config = dataclasses.replace(trained.model.config, rematerialise=False)
    return Loaded(make_model(config), trained.params, trained.vocabulary)


def _ids(trained: UsableModel, text: str) -> list[int]:
    """The tokens of the text as the model reads them.

    Raises:
      ValueError: there are none, or more than the model or a page has room for.
    """
    (ids,) = trained.vocabulary.encode([text])
    if not ids:
        raise ValueError("there is nothing to look at: the text has no tokens")
    if isinstance(trained.model, TranslationModel):
        ids = [*ids, END_ID]
    elif not isinstance(trained.model, LanguageModel):
        ids = [START_ID, *ids, END_ID]
    elif trained.opens_with_start:
        ids = [START_ID, *ids]
    limit = line_limit(trained)
    if len(ids) > min(limit.most, MOST_TOKENS):
        raise ValueError(
            f"the text has {len(ids)} tokens: "
            + (
                f"more than {limit.key}={limit.most}"
                if limit.most < MOST_TOKENS
                else f"a page shows at most {MOST_TOKENS}, give a shorter sentence"
            )
        )
    return ids


def _searches(
    trained: UsableModel, model: TranslationModel, loaded: Loaded, ids: list[int]
) -> list[Search]:
    """Greedy search, and the config's search if it is another."""
    config = trained.sections.decoding
    configs = [dataclasses.replace(config, beam_size=1, n_best=1)]
    if config.beam_size > 1:
        configs.append(config)
    found = []
    for each in configs:
        decoder = TranslationDecoder(model, each, trained.vocabulary.size)
        tree = search_tree(decoder, trained.params, ids)
        pieces = [token.piece for token in loaded.tokens([node.id for node in tree.nodes])]
        (text,) = trained.vocabulary.decode([tree.best_ids])
        score = tree.nodes[tree.best].score
        name = "greedy" if each.beam_size == 1 else "beam"
        found.append(Search(name, tree, pieces, text, float(score or 0.0)))
    return found


def _document(
    loaded: Loaded,
    read: _Read,
    text: str,
    label: str,
    top_n: int,
    class_names: Sequence[str],
) -> Document:
    """The forward pass over the tokens, and the document of it."""
    sides = [ids for ids in (read.source, read.inputs) if ids]
    logits, heard = hear(loaded.model, loaded.params, *sides)
    if not np.isfinite(logits).all():
        raise ValueError("the model's outputs are not numbers (NaN): it diverged in training")
    config = loaded.config
    stacks = []
    if read.source:
        stacks.append(stack_of(loaded, "encoder", read.source, heard))
    if read.inputs:
        stacks.append(stack_of(loaded, "decoder", read.inputs, heard))
    steps: list[Step] = []
    classes: list[Class] = []
    output = None
    if read.inputs:
        steps = _steps(loaded, logits, read.outputs, read.num_given, top_n)
        (output,) = loaded.vocabulary.decode([_written(read)])
    elif isinstance(loaded.model, Classifier):
        classes = [
            Class(name, logit, probability)
            for name, logit, probability in zip(
                class_names, logits.tolist(), _softmax(logits).tolist(), strict=True
            )
        ]
        if config.pooling == "query":
            pooling = pooling_attention(config, heard)
            stacks[0] = stacks[0]._replace(attentions=[*stacks[0].attentions, pooling])
    else:
        steps = _guesses(loaded, read.source, logits, top_n)
    return Document(
        label=label,
        facts={name: getattr(config, name) for name in _facts_of(config)}
        | {"parameters": num_parameters(config)},
        text=text,
        output=output,
        stacks=stacks,
        steps=steps,
        searches=[],
        classes=classes,
        layouts=layouts(config.d_model, _POSITIONS_OF_LAYOUTS),
    )


def _written(read: _Read) -> list[int]:
    """The tokens of a translation, or of a prompt and its continuation."""
    whole = read.outputs if read.source else [read.inputs[0], *read.outputs]
    # An end token in a prompt (GPT-2 has no other start token) does not end the text.
    given = [token_id for token_id in whole[: read.num_given + 1] if token_id != END_ID]
    return given + whole[read.num_given + 1 :] if not read.source else whole


def _steps(
    loaded: Loaded,
    logits: Float[np.ndarray, "T vocab"],
    chosen: Sequence[int],
    num_given: int,
    top_n: int,
) -> list[Step]:
    """The predictions at each position, and the token that follows."""
    probabilities = _softmax(logits)
    best = np.argsort(-logits[:, : loaded.vocabulary.size], kind="stable")[:, :top_n]

    def candidate(place: int, token: Token) -> Candidate:
        at = (place, token.id)
        return Candidate(token, float(logits[at]), float(probabilities[at]))

    return [
        Step(
            candidate(place, token),
            place < num_given,
            [candidate(place, each) for each in loaded.tokens(best[place].tolist())],
        )
        for place, token in enumerate(loaded.tokens(chosen))
    ]


def _guesses(
    loaded: Loaded, ids: list[int], logits: Float[np.ndarray, "T vocab"], top_n: int
) -> list[Step]:
    """A masked language model's predictions for each token, with that token masked.

    If its vocabulary has no mask, the token is left in place.
    """
    if loaded.vocabulary.has_mask:
        masked = np.tile(np.asarray(ids, np.int32), (len(ids), 1))
        np.fill_diagonal(masked, MASK_ID)
        model: Any = loaded.model

        def guesses(params: PyTree, rows: Any) -> Any:
            def guess(row_and_place: Any) -> Any:
                row, place = row_and_place
                return model.apply({"params": params}, row[None], deterministic=True)[0, place]

            # A few rows at a time: all logits of all rows are gigabytes in a model like BERT.
            return jax.lax.map(guess, (rows, jnp.arange(len(rows))), batch_size=8)

        logits = np.asarray(jax.jit(guesses)(loaded.params, masked), np.float32)
    return _steps(loaded, logits, ids, len(ids), top_n)


def _with_drawn_projections(params: PyTree, drawn: PyTree) -> PyTree:
    """`params`, with the query, key and value projections of `drawn`."""
    leaves, others = flatten_dict(params), flatten_dict(drawn)
    return unflatten_dict(
        {
            path: others[path]
            if any("attention" in name for name in path) and path[-2] in _PROJECTIONS
            else leaf
            for path, leaf in leaves.items()
        }
    )


def _softmax(logits: Float[np.ndarray, "*rows vocab"]) -> Float[np.ndarray, "*rows vocab"]:
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def _facts_of(config: TransformerConfig) -> tuple[str, ...]:
    """The keys that the model reads."""
    values = {f"model.{name}": value for name, value in dataclasses.asdict(config).items()}
    return tuple(name for name in _FACTS if not unmet(f"model.{name}", values))
