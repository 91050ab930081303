"""Which verb uses which family of models."""

from t2t_jax.model.config import TransformerConfig


def check_family(model: TransformerConfig, verb: str) -> None:
    """Raises ValueError unless `verb` is the one that uses such a model; says which is."""
    what, fitting = _use(model)
    if verb == fitting:
        return
    advice = f"use t2t-jax {fitting}"
    if fitting == "score":
        advice = "t2t-jax score tells how well it guesses"
    raise ValueError(
        f"this is {what} (model.family={model.family!r}), not one to {verb} with: {advice}"
    )


def _use(model: TransformerConfig) -> tuple[str, str]:
    """What a model is, and the verb it is used by."""
    if model.family == "decoder_only":
        return "a language model", "generate"
    if model.family != "encoder_only":
        return "a translation model", "translate"
    if model.pooling == "none":
        return "a masked language model", "score"
    return "a classifier", "classify"
