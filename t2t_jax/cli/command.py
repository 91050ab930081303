"""Reads flags so that a mistyped one ends in one sentence, not in a traceback."""

import difflib
import sys
from logging import LogRecord
from pathlib import Path

from absl import flags, logging

from t2t_jax.cli.config_keys import config_keys

_ONLY_IN_A_CHECKOUT = (
    "configs/ and experiments/ are not installed with t2t_jax: type this in a checkout of the code"
)


def parse_flags(name: str, argv: list[str]) -> list[str]:
    """A `flags_parser` for `app.run`; `name` stands before the sentences about flags.

    Libraries tell their warnings only, and no stacks, unless --verbosity says otherwise.
    """
    try:
        rest = flags.FLAGS(argv)
        for flag in flags.FLAGS:
            hasattr(flags.FLAGS[flag].value, "")  # of a config that is not there this raises
    except (AttributeError, KeyError, flags.UnrecognizedFlagError) as error:
        sys.exit(f"{name}: {_unknown_flag(argv, error)}")
    except (ImportError, OSError) as error:
        sys.exit(f"{name}: {_no_config(argv, error)}")
    except (TypeError, ValueError, flags.Error) as error:
        sys.exit(f"{name}: {error}")
    if flags.FLAGS["verbosity"].using_default_value:
        flags.FLAGS.verbosity = logging.WARNING  # Orbax tells every file it touches
        logging.get_absl_logger().addFilter(_without_stack)
    return rest


def _without_stack(entry: LogRecord) -> bool:
    entry.exc_info = entry.exc_text = None
    return True


def _unknown_flag(argv: list[str], error: Exception) -> str:
    """Which flag or key there is not, and which may have been meant."""
    config_flags = [name for name in ("config", "base") if name in flags.FLAGS]
    keys = [f"{flag}.{key.path}" for flag in config_flags for key in config_keys()]
    known = [*flags.FLAGS, *keys]
    for argument in argv[1:]:
        name = argument.lstrip("-").partition("=")[0]
        leaf = name.rpartition(".")[2]
        if not argument.startswith("-") or name.removeprefix("no") in known or name in known:
            continue
        if "." in name and not keys and leaf not in str(error):
            continue  # a key that is there: only a checkout knows them all
        meant = [key for key in keys if key.endswith(f".{leaf}")]
        meant = meant or difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        advice = f": did you mean --{' or --'.join(meant)}?" if meant else ", see --help"
        return f"there is no {'key' if '.' in name else 'flag'} --{name}{advice}"
    return str(error)


def _no_config(argv: list[str], error: Exception) -> str:
    """Why a config cannot be read, and where it may lie."""
    sentence = str(error).rpartition("\n")[2].strip()
    if not Path("configs").is_dir():
        return f"{sentence}; {_ONLY_IN_A_CHECKOUT}"
    for argument in argv[1:]:
        value = argument.partition("=")[2] or argument
        file = Path("configs") / f"{Path(value).stem}.py"
        if repr(value) in sentence and file.exists():
            return f"there is no file {value}: did you mean {file}?"
    return sentence
