"""How long a line may be for a loaded model."""

from t2t_jax.decoding.long_lines import CountTokens, LineLimit
from t2t_jax.runs.workdir import UsableModel


def long_line_advice(limit: LineLimit) -> str:
    """What helps where a line is longer than that."""
    more = {
        "data.max_length": ", or allow more with --config.data.max_length",
        "max_new_tokens": ", or lower --max_new_tokens, which also need positions",
    }
    return "shorten or cut it" + more.get(limit.key, "")


def line_limit(trained: UsableModel) -> LineLimit:
    """The longest line the model was trained on: beyond it, its output rarely makes sense.

    Memory grows with the square of the length.
    """
    limits = [LineLimit(trained.sections.data.max_length, "data.max_length")]
    if (longest := trained.model.config.longest_sequence) is not None:
        limits.append(LineLimit(longest, "model.max_positions"))
    return min(limits, key=lambda limit: (limit.most, limit.key != "model.max_positions"))


def token_counter(trained: UsableModel, num_added: int) -> CountTokens:
    """`count(lines)`: the tokens of each, plus the `num_added` that the model adds."""

    def count(lines: list[str]) -> list[int]:
        return [len(ids) + num_added for ids in trained.vocabulary.encode(lines)]

    return count
