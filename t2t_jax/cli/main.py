"""t2t-jax: the Transformer of "Attention Is All You Need", and what each part of it is worth.

    t2t-jax prepare   --config=configs/tiny.py                learn the vocabulary, tokenise once
    t2t-jax train     --config=configs/tiny.py --workdir=W    train, or resume
    t2t-jax translate --workdir=W < sentences > translations
    t2t-jax generate  --workdir=W --prompt="The dog"          what a language model writes next
    t2t-jax classify  --workdir=W < sentences > classes
    t2t-jax score     --workdir=W --split=test                perplexity, and BLEU or accuracy
    t2t-jax compare W1 W2                                     scores, and where they differ
    t2t-jax export    --workdir=W --format=ctranslate2 --output=DIR    or --format=marian
    t2t-jax explain   --workdir=W --source="The dog sleeps." --output=page.html    look inside
    t2t-jax plan      --config=configs/big.py --topology=v5e-8    fit, hours, dollars

Every config key can be set: --config.section.key=value. `t2t-jax VERB --help` explains a verb and
lists the keys; `t2t-jax VERB --help=model` lists those of one section. `t2t-jax --version` prints
the version.
"""

import functools
import importlib
import os
import re
import sys
import traceback
from types import ModuleType

from absl import app, flags

from t2t_jax.cli import config_keys
from t2t_jax.cli.command import may_be_cut_off, parse_flags

# Modules of this package. They import heavy libraries only when they run: --help is fast.
_VERBS = (
    "prepare",
    "train",
    "translate",
    "generate",
    "classify",
    "score",
    "compare",
    "export",
    "explain",
    "plan",
)

_MAKE_RUNS = (
    "prepare",
    "train",
    "plan",
)  # these read their config themselves: they find its corpus
# Flags that may differ between hosts.
_OF_ONE_HOST = re.compile(
    r"--?(coordinator|num_processes|process_id)[= ]\S+|--?(no)?(distributed|debug)\b(=\S+)?"
)
STOPPED = 130  # exit code of whatever a person or a machine stopped


def main() -> None:
    """Entry point of the command."""
    try:
        _main()
    except KeyboardInterrupt:  # while libraries are imported
        _end_at_once("t2t-jax: stopped")
    except OSError as error:  # of standard output; verbs tell their own
        sys.exit(f"t2t-jax: {_told(error)}")


def _main() -> None:
    if os.getcwd() not in sys.path:  # as with `python -m`: a config may import others
        sys.path.insert(0, os.getcwd())
    if sys.stderr is None:  # closed by whoever started this; `print` would use standard output
        sys.stderr = open(os.devnull, "w")
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        with may_be_cut_off():
            print(__doc__)
        sys.exit(0 if arguments else 2)
    if arguments[0] == "--version":
        from importlib import metadata

        try:
            version = f"t2t-jax {metadata.version('t2t_jax')}"
        except metadata.PackageNotFoundError:
            version = "t2t-jax, not installed"
        with may_be_cut_off():
            print(version)
        return
    name, *rest = arguments
    if name not in _VERBS:
        sys.exit(f"t2t-jax: {name!r} is not a verb; the verbs are {', '.join(_VERBS)}")
    verb = importlib.import_module(f"t2t_jax.cli.{name}")
    questions = [each for each in rest if each.partition("=")[0] in ("-h", "-help", "--help")]
    _define_common_flags(verb.__name__)
    try:
        verb.define_flags([] if questions else rest)
        if questions:
            with may_be_cut_off():
                _print_help(name, verb, questions[0].partition("=")[2])
            return
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"t2t-jax {name}: {_told(error)}")
    app.run(
        lambda argv: _run(name, verb, argv),
        argv=[f"t2t-jax {name}", *rest],
        flags_parser=lambda argv: parse_flags(f"t2t-jax {name}", argv),
    )


def _print_help(name: str, verb: ModuleType, section: str) -> None:
    has_config = not hasattr(verb, "ARGUMENTS")
    if not section or not has_config:
        print(verb.__doc__)
        print(flags.FLAGS.module_help(verb.__name__))
    if has_config:
        print(config_keys.help_text(section, functools.partial(_is_read_by, name)))
    if not section and hasattr(verb, "closing_help"):
        print(verb.closing_help())


def _is_read_by(name: str, key: str) -> bool:
    """Whether a verb may read another value of a key than that of its run."""
    from t2t_jax.runs.effect import NOT_READ_BY
    from t2t_jax.runs.keys import is_of_the_model

    return name not in NOT_READ_BY or not (key in NOT_READ_BY[name] or is_of_the_model(key))


def _stopped_text(name: str, values: flags.FlagValues) -> str:
    from t2t_jax.buckets import checkpoints_of, directory_of
    from t2t_jax.training.stop_requests import left_text

    if name == "train":
        return left_text(checkpoints_of(directory_of(values.workdir)))
    return "stopped; run the same command again to resume" if name == "prepare" else "stopped"


def _out_of_memory_text(name: str, values: flags.FlagValues) -> str:
    """What helps when a device runs out of memory."""
    from t2t_jax.runs import memory_advice

    match name:
        case "train":
            config = values.config
            task, microbatches = config.data.task, config.training.microbatches
            return memory_advice.in_training(task, microbatches, "--config")
        case "score":
            return memory_advice.IN_SCORING
        case "explain":
            return "take a shorter sentence"
        case "export":
            return "JAX_PLATFORMS=cpu exports too"
        case "translate":
            return "lower decoding.tokens_per_batch or beam_size"
        case _:
            return "lower decoding.tokens_per_batch"


def _told(error: Exception) -> str:
    from t2t_jax.buckets import told
    from t2t_jax.json_files import error_text

    return told(error_text(error))


def _end_at_once(sentence: str) -> None:
    """Ends this process as a stopped one, whatever its threads are doing.

    An orderly end while XLA compiles in another thread may crash.
    """
    print(sentence, file=sys.stderr)
    if sys.stdout is not None:
        sys.stdout.flush()
    os._exit(STOPPED)


def _define_common_flags(module_name: str) -> None:
    flags.DEFINE_bool("debug", False, "show the traceback of an error", module_name=module_name)
    for define, flag, meaning in (
        (flags.DEFINE_string, "coordinator", "several hosts: address:port of the first"),
        (flags.DEFINE_integer, "num_processes", "several hosts: how many processes"),
        (flags.DEFINE_integer, "process_id", "several hosts: number of this process, from 0"),
    ):
        define(flag, None, meaning, module_name=module_name)
    meaning = (
        "several hosts: find the others through the cloud or cluster; by default if it announces "
        "others; --nodistributed: never"
    )
    flags.DEFINE_bool("distributed", None, meaning, module_name=module_name)


def _run(name: str, verb: ModuleType, argv: list[str]) -> None:
    wanted = getattr(verb, "ARGUMENTS", ())
    arguments = argv[1:]
    if len(arguments) > len(wanted):
        extra = arguments[len(wanted)]
        sys.exit(f"t2t-jax {name}: {extra!r} is not a flag; flags look like --name=value")
    if len(arguments) < len(wanted):
        sys.exit(f"t2t-jax {name}: it needs {' and '.join(wanted)}, see --help")
    import jax

    from t2t_jax import buckets, hosts, memory
    from t2t_jax.cli.given_config import check_given
    from t2t_jax.runs.kept_programs import keep_programs
    from t2t_jax.training.loop import Stopped

    values = flags.FLAGS
    try:
        hosts.join(
            values.coordinator,
            values.num_processes,
            values.process_id,
            detect=values.distributed,
        )
        keep_programs()
        if not hosts.is_first():
            sys.stdout = open(os.devnull, "w")  # every host would print the same
        if name not in _MAKE_RUNS and not wanted:
            words = sorted(_OF_ONE_HOST.sub("", " ".join(sys.argv[1:])).split())
            advice = "give the same flags on all of them, but for those that tell them apart"
            hosts.check_same("the command", " ".join(words).encode(), advice)
        if name not in _MAKE_RUNS and "config" in values:
            check_given("config", [values.config], name)
        with buckets.kept_up(hosts.is_first), may_be_cut_off():
            verb.main(*arguments)
    except KeyboardInterrupt:
        _end_at_once(f"t2t-jax {name}: {_stopped_text(name, values)}")
    except Stopped as stop:
        print(f"t2t-jax {name}: {stop}", file=sys.stderr)
        sys.exit(STOPPED)
    except jax.errors.JaxRuntimeError as error:
        sentence = str(error).splitlines()[0]
        if memory.is_exhausted(error):
            advice = _out_of_memory_text(name, values)
            sentence = f"the device has not enough memory: {advice}"
        hosts.leave(f"t2t-jax {name}: {sentence}", error)
        if values.debug or not memory.is_exhausted(error):
            raise
        sys.exit(f"t2t-jax {name}: {sentence}")
    except (ValueError, TypeError, OSError, ArithmeticError, MemoryError) as error:
        if values.debug:
            traceback.print_exc()
        sentence = f"t2t-jax {name}: {_told(error)}"
        hosts.leave(sentence, error)
        sys.exit(sentence)


if __name__ == "__main__":
    main()
