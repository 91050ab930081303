"""Untrained models, as if loaded from a directory."""

import functools

import jax
import numpy as np

from configs import classifier, language_model, masked_language_model, tiny
from t2t_jax.data.vocabulary.vocabulary import learn_vocabulary
from t2t_jax.devices import make_devices
from t2t_jax.explain.document import Attention, Document, PositionsOfModel, Stack, SubLayer, Token
from t2t_jax.explain.explained import explain
from t2t_jax.model.families import make_model
from t2t_jax.runs.sections import read_sections
from t2t_jax.runs.workdir import Trained
from tests.model.configs import POSITIONS, random_variables
from tests.runs.configs import OVERRIDES

WORDS = ["the dog sees a cat", "a bed in the sea", "tea & <b>"]
TEXT = "the cat & a <b>"
_SIZES = {
    "model.vocabulary_rows": 26,
    "data.vocabulary_size": 26,
    "model.num_encoder_layers": 2,
    "model.num_decoder_layers": 2,
    "decoding.beam_size": 3,
}
_MODULES = {
    "encoder_decoder": tiny,
    "recurrent": tiny,
    "decoder_only": language_model,
    "encoder_only": masked_language_model,
    "classifier": classifier,
}
KINDS = list(_MODULES)


@functools.cache
def trained(kind: str = "encoder_decoder", positions: str = "sinusoidal", **changes) -> Trained:
    """A small model of a family; its parameters are drawn."""
    module = _MODULES[kind]
    config = module.get_config()
    values = OVERRIDES | _SIZES | {"model.positions": positions}
    values |= {f"model.{key}": value for key, value in POSITIONS[positions].items()}
    if kind == "recurrent":
        values["model.family"] = "recurrent"
    config.update_from_flattened_dict(values | changes)
    sections = read_sections(config)
    model = make_model(sections.model)
    vocabulary = learn_vocabulary(WORDS, "char", 26, 1.0, with_mask=kind == "encoder_only")
    # Counted positions make scores of thousands, of which float32 keeps three decimals.
    scale = 1 if positions == "counted" else 2
    params = jax.tree.map(lambda leaf: scale * leaf, random_variables(model)["params"])
    classes = ("statement", "question") if kind == "classifier" else ()
    return Trained(sections, vocabulary, model, params, make_devices(1), 7, classes)


@functools.cache
def document(kind: str = "encoder_decoder", positions: str = "sinusoidal", **changes) -> Document:
    """What such a model makes of TEXT."""
    return explain(trained(kind, positions, **changes), TEXT, max_new_tokens=4)


def large_document(num_layers: int, num_tokens: int) -> Document:
    """One of the size of the paper's base model, of drawn numbers."""
    rng = np.random.default_rng(0)
    d_model, d_k, heads, size = 512, 64, 8, num_tokens
    tokens = [Token(4 + i, f"▁piece{i}") for i in range(size)]

    def drawn(*shape):
        return rng.normal(size=shape).astype(np.float32)

    def attention(looks, layer):
        mask = np.tri(size) if looks == "decoder" else np.ones((size, size))
        weights = rng.dirichlet(np.ones(size), (heads, size)) * mask
        weights /= weights.sum(-1, keepdims=True)
        scores, query, key = (
            drawn(heads, size, size),
            drawn(heads, size, d_k),
            drawn(heads, size, d_k),
        )
        cosine = drawn(heads, size, size)
        return Attention(
            looks,
            layer,
            0,
            weights.astype(np.float32),
            mask.astype(np.float32),
            scores=scores,
            divisor=1.0,
            query=query,
            key=key,
            context_cosine=cosine,
        )

    def stack(name):
        names = [
            "self_attention",
            *(["cross_attention"] if name == "decoder" else []),
            "feed_forward",
        ]
        looks = ["encoder"] if name == "encoder" else ["decoder", "cross"]
        positions = max(size, 32)
        of_positions = PositionsOfModel(
            "sinusoidal", drawn(positions, d_model), drawn(positions, positions), None
        )
        return Stack(
            name=name,
            tokens=tokens,
            embedding=drawn(size, d_model),
            neighbours=small.stacks[0].neighbours[:1] * size,
            map=small.stacks[0].map,
            positions=of_positions,
            embedded=drawn(size, d_model),
            attentions=[attention(each, n) for n in range(num_layers) for each in looks],
            sub_layers=[
                SubLayer(each, n, abs(drawn(size)), abs(drawn(size)), np.tanh(drawn(size)))
                for n in range(num_layers)
                for each in names
            ],
            active=abs(np.tanh(drawn(num_layers, size))),
            cosine=np.tanh(drawn(num_layers + 1, size, size)),
        )

    small = document()
    steps = [small.steps[i % len(small.steps)] for i in range(size)]
    return small._replace(
        stacks=[stack("encoder"), stack("decoder")],
        steps=steps,
        layouts={name: drawn(50, d_model) for name in small.layouts},
    )
