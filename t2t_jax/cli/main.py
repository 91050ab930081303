"""t2t-jax: the Transformer of "Attention Is All You Need", and what each part of it is worth.

    t2t-jax prepare   --config=configs/tiny.py                learn the vocabulary, tokenise once
    t2t-jax train     --config=configs/tiny.py --workdir=W    train, or go on with what is there
    t2t-jax translate --workdir=W < sentences > translations
    t2t-jax generate  --workdir=W --prompt="The dog"          what a language model writes next
    t2t-jax classify  --workdir=W < sentences > classes
    t2t-jax score     --workdir=W --split=test                perplexity, and BLEU or accuracy
    t2t-jax export    --workdir=W --format=marian --output=DIR    for transformers or CTranslate2

Every key of a config can be set: --config.section.key=value. `t2t-jax VERB --help` explains one.
"""

import sys
import traceback
from collections.abc import Callable

import jax
from absl import app, flags, logging

from t2t_jax.cli import classify, export, generate, prepare, score, train, translate
from t2t_jax.cli.command import parse_flags
from t2t_jax.training.loop import Stopped

_VERBS = {
    "prepare": prepare,
    "train": train,
    "translate": translate,
    "generate": generate,
    "classify": classify,
    "score": score,
    "export": export,
}


def main() -> None:
    """Entry point of the command."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    name, *rest = arguments
    if name not in _VERBS:
        sys.exit(f"t2t-jax: {name!r} is no verb; there are {', '.join(_VERBS)}")
    verb = _VERBS[name]
    wants_help = any(argument in ("-h", "--help") for argument in rest)
    flags.DEFINE_bool("debug", False, "show where an error arose", module_name=verb.__name__)
    try:
        verb.define_flags([] if wants_help else rest)
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"t2t-jax {name}: {error}")
    if wants_help:
        print(verb.__doc__)
        print(flags.FLAGS.module_help(verb.__name__))
        return
    app.run(
        lambda argv: _run(name, verb.main, argv),
        argv=[f"t2t-jax {name}", *rest],
        flags_parser=lambda argv: parse_flags(f"t2t-jax {name}", argv),
    )


def _run(name: str, verb_main: Callable[[], None], argv: list[str]) -> None:
    if len(argv) > 1:
        sys.exit(f"t2t-jax {name}: {argv[1]!r} is no flag; flags look like --name=value")
    logging.set_verbosity(logging.WARNING)  # Orbax tells every file it touches
    try:
        verb_main()
    except Stopped as stop:
        print(f"t2t-jax {name}: {stop}", file=sys.stderr)
        sys.exit(130)
    except jax.errors.JaxRuntimeError as error:
        if flags.FLAGS.debug or "RESOURCE_EXHAUSTED" not in str(error):
            raise
        sys.exit(
            f"t2t-jax {name}: the device has not enough memory: lower data.*_tokens_per_batch, or "
            "decoding.tokens_per_batch"
        )
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        if flags.FLAGS.debug:
            traceback.print_exc()
        sys.exit(f"t2t-jax {name}: {error}")


if __name__ == "__main__":
    main()
