"""Reads flags so that a mistyped one ends in one sentence, not in a traceback."""

import sys
from logging import LogRecord
from pathlib import Path

from absl import app, flags, logging

_ONLY_IN_A_CHECKOUT = (
    "configs/ and experiments/ are not installed with t2t_jax: type this in a checkout of the code"
)


def parse_flags(name: str, argv: list[str]) -> list[str]:
    """A `flags_parser` for `app.run`; `name` stands before the sentences about flags.

    Libraries tell their warnings only, and no stacks, unless --verbosity says otherwise.
    """
    try:
        rest = app.parse_flags_with_usage(argv)
        for flag in flags.FLAGS:
            hasattr(flags.FLAGS[flag].value, "")  # of a config that is not there this raises
    except (AttributeError, KeyError) as error:
        sys.exit(f"{name}: {_unknown_key(error)}")
    except (ImportError, OSError) as error:
        sentence = str(error).rpartition("\n")[2].strip()
        hint = "" if Path("configs").is_dir() else f"; {_ONLY_IN_A_CHECKOUT}"
        sys.exit(f"{name}: {sentence}{hint}")
    except (TypeError, ValueError) as error:
        sys.exit(f"{name}: {error}")
    if flags.FLAGS["verbosity"].using_default_value:
        flags.FLAGS.verbosity = logging.WARNING  # Orbax tells every file it touches
        logging.get_absl_logger().addFilter(_without_stack)
    return rest


def _without_stack(entry: LogRecord) -> bool:
    entry.exc_info = entry.exc_text = None
    return True


def _unknown_key(error: BaseException) -> str:
    """What ml_collections knows of a key that the config lacks, out of three nested exceptions."""
    root = error
    while root.__context__ is not None and "Did you mean" not in str(root.args[0]):
        root = root.__context__
    while isinstance(root.args[0], BaseException):
        root = root.args[0]
    key, _, suggestion = str(root.args[0]).partition("\n")
    return f"the config has no key {key}. {suggestion}".strip()
