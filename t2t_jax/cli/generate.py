"""t2t-jax generate: a language model goes on from a prompt, token by token.

    t2t-jax generate --workdir=W --prompt="The dog" --top_n=3
    t2t-jax generate --workdir=W --prompt="The dog" --temperature=0.8 --top_p=0.9 --seed=1
    t2t-jax generate --workdir=W --top_n=0 < prompts > texts
    t2t-jax generate --model=hf:DIR --prompt="The dog"    a GPT-2 in Hugging Face format

For every token: what was chosen (>), and the top_n likeliest next tokens with their logits and
probabilities, as the model says them before temperature, top_k and top_p. The text comes last.
--prompt may be given several times; without it every line of standard input is one. Temperature 0,
which is the default, always chooses the likeliest token. With --top_n=0 there are only the texts,
with --json a JSON object a line.
"""

from absl import flags

from t2t_jax.cli.workdir_flags import define_model_flags


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)
    flags.DEFINE_multi_string(
        "prompt", None, "what to go on from, one or more; without it, the lines of standard input"
    )
    flags.DEFINE_integer("max_new_tokens", 50, "most tokens after the prompt, the end counted")
    flags.DEFINE_integer(
        "top_n", 3, "likeliest next tokens shown for every token; 0: only the text"
    )
    flags.DEFINE_float("temperature", 0.0, "what logits are divided by; 0: the likeliest token")
    flags.DEFINE_integer("top_k", 0, "draw from so many likeliest tokens; 0: from all")
    flags.DEFINE_float(
        "top_p", 1.0, "draw from the likeliest tokens of so much probability; 1: all"
    )
    flags.DEFINE_integer("seed", 0, "of all draws")
    flags.DEFINE_integer("num_samples", 1, "continuations of every prompt")
    flags.DEFINE_bool("json", False, "print one JSON object a line")


def main() -> None:
    """Runs the verb."""
    from t2t_jax.cli.chosen_model import model_of_flags
    from t2t_jax.cli.lines import read_windows, text_output
    from t2t_jax.cli.token_table import print_texts
    from t2t_jax.decoding.sampling import Sampling
    from t2t_jax.runs.generate import generate, generate_lines

    values = flags.FLAGS
    for name in ("top_k", "top_p"):
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
