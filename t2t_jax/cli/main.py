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

import os
import sys
import traceback
from collections.abc import Callable

import jax
from absl import app, flags

from t2t_jax import hosts
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
    if os.getcwd() not in sys.path:  # as it is of `python -m`: a config may import others
        sys.path.insert(0, os.getcwd())
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    name, *rest = arguments
    if name not in _VERBS:
        sys.exit(f"t2t-jax: {name!r} is no verb; there are {', '.join(_VERBS)}")
    verb = _VERBS[name]
    wants_help = any(argument in ("-h", "--help") for argument in rest)
    _define_common_flags(verb.__name__)
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


def _define_common_flags(module_name: str) -> None:
    flags.DEFINE_bool("debug", False, "show where an error arose", module_name=module_name)
    for define, flag, meaning in (
        (flags.DEFINE_string, "coordinator", "of several hosts: address:port of the first"),
        (flags.DEFINE_integer, "num_processes", "of several hosts: how many"),
        (flags.DEFINE_integer, "process_id", "of several hosts: which one this is, from 0"),
    ):
        define(flag, None, meaning, module_name=module_name)
    meaning = (
        "of several hosts: find the others by what the cloud or the cluster says of them; by "
        "default where it speaks of others, with --nodistributed never"
    )
    flags.DEFINE_bool("distributed", None, meaning, module_name=module_name)


def _run(name: str, verb_main: Callable[[], None], argv: list[str]) -> None:
    if len(argv) > 1:
        sys.exit(f"t2t-jax {name}: {argv[1]!r} is no flag; flags look like --name=value")
    values = flags.FLAGS
    try:
        hosts.join(
            values.coordinator,
            values.num_processes,
            values.process_id,
            detect=values.distributed,
        )
        if not hosts.is_first():
            sys.stdout = open(os.devnull, "w")  # what is written is the same on every host
        verb_main()
    except KeyboardInterrupt:
        sys.exit(f"t2t-jax {name}: interrupted")
    except Stopped as stop:
        print(f"t2t-jax {name}: {stop}", file=sys.stderr)
        sys.exit(130)
    except jax.errors.JaxRuntimeError as error:
        sentence = str(error).splitlines()[0]
        if "RESOURCE_EXHAUSTED" in str(error):
            sentence = (
                "the device has not enough memory: lower data.*_tokens_per_batch, or "
                "decoding.tokens_per_batch"
            )
        hosts.leave(f"t2t-jax {name}: {sentence}", error)
        if values.debug or "RESOURCE_EXHAUSTED" not in str(error):
            raise
        sys.exit(f"t2t-jax {name}: {sentence}")
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        if values.debug:
            traceback.print_exc()
        hosts.leave(f"t2t-jax {name}: {error}", error)
        sys.exit(f"t2t-jax {name}: {error}")


if __name__ == "__main__":
    main()
