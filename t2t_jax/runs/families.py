"""Which verb uses which family of models."""

from t2t_jax.model.config import TransformerConfig
from t2t_jax.model.interface import Model


def wrong_verb(model: Model, verb: str) -> ValueError:
    """The error if `verb` does not use such models; it says which verb does."""
    _, fitting = _use(model.config)
    advice = f"use t2t-jax {fitting}"
    if fitting == "score":
        advice = (
            "t2t-jax score tells how well one trained here guesses; t2t-jax train --init makes a "
            "classifier of a pretrained one"
        )
    return ValueError(f"{what_it_is(model)}, not one to {verb} with: {advice}")


def what_it_is(model: Model) -> str:
    """The beginning of a sentence: what kind of model this is."""
    what, _ = _use(model.config)
    return f"this is {what} (model.family={model.config.family!r})"


def _use(model: TransformerConfig) -> tuple[str, str]:
    """What a model is called, and the verb that uses it."""
    if model.family == "decoder_only":
        return "a language model", "generate"
    if model.family != "encoder_only":
        return "a translation model", "translate"
    if model.pooling == "none":
        return "a masked language model", "score"
    return "a classifier", "classify"


def check_is_one(model: Model, name: str) -> None:
    """Raises ValueError if a model is an ensemble; `name` says which model."""
    if (size := model.config.ensemble_size) > 1:
        raise ValueError(
            f"{name} is an ensemble, model.ensemble_size={size}: only a single model can be shown"
        )
