"""t2t-jax generate: a language model continues a prompt, token by token.

    t2t-jax generate --workdir=W --prompt="The dog" --top_n=3
    t2t-jax generate --workdir=W --prompt="The dog" --temperature=0.8 --top_p=0.9 --seed=1
    t2t-jax generate --workdir=W --top_n=0 < prompts > texts
    t2t-jax generate --model=hf:DIR --prompt="The dog"    a GPT-2 in Hugging Face format

For every token: the choice (>), and the top_n likeliest next tokens with their logits and
probabilities before temperature, top_k and top_p. The text comes last. --prompt may be given
several times; without it, every line of standard input is a prompt. Temperature 0, the default,
always chooses the likeliest token. --top_n=0 prints only the texts, --json one JSON object per
line.
"""

from absl import flags

from t2t_jax.cli.workdir_flags import define_model_flags


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)
    flags.DEFINE_multi_string(
        "prompt", None, "text to continue; repeatable; default: the lines of standard input"
    )
    flags.DEFINE_integer(
        "max_new_tokens",
        50,
        "most tokens after the prompt, end token included",
        upper_bound=1_000_000,
    )
    flags.DEFINE_integer(
        "top_n",
        3,
        "likeliest next tokens to show for every token; 0: only the text, in which GPT-2 may break "
        "lines",
    )
    flags.DEFINE_float("temperature", 0.0, "divides the logits; 0: the likeliest token")
    flags.DEFINE_integer("top_k", 0, "draw from the k likeliest tokens; 0: from all")
    flags.DEFINE_float(
        "top_p", 1.0, "draw from the likeliest tokens with this total probability; 1: all"
    )
    flags.DEFINE_integer("seed", 0, "seed of all draws")
    flags.DEFINE_integer("num_samples", 1, "continuations per prompt")
    flags.DEFINE_bool("json", False, "print one JSON object per line")


def main() -> None:
    """Runs the verb."""
    from t2t_jax.cli.chosen_model import model_of_flags
    from t2t_jax.cli.lines import read_windows, text_output
    from t2t_jax.cli.token_table import print_texts
    from t2t_jax.decoding.sampling import Sampling
    from t2t_jax.runs.generate import generate, generate_lines

    values = flags.FLAGS
    for name in ("top_k", "top_p", "seed"):
        if values[name].present and values.temperature == 0:
            raise ValueError(
                f"--{name}={values[name].value} changes nothing with --temperature=0, which always "
                "chooses the likeliest token: set a temperature above 0, such as 1"
            )
    sampling = Sampling(temperature=values.temperature, top_k=values.top_k, top_p=values.top_p)
    options = dict(
        max_new_tokens=values.max_new_tokens,
        sampling=sampling,
        seed=values.seed,
        num_samples=values.num_samples,
        top_n=values.top_n,
    )
    with text_output() as output:
        if values.prompt is None:
            windows = read_windows()
            found = generate_lines(model_of_flags(), windows, **options)
        else:
            texts = generate(model_of_flags(), values.prompt, **options)
            found = zip(values.prompt, texts, strict=True)
        print_texts(output, found, as_json=values.json)
