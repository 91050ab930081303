"""Reads flags; a mistyped one ends in one sentence, not in a traceback."""

import contextlib
import difflib
import itertools
import os
import re
import signal
import sys
from collections.abc import Iterator
from logging import LogRecord
from pathlib import Path

from absl import flags, logging

from t2t_jax.cli.config_keys import config_keys
from t2t_jax.cli.own_files import described, is_from

_ONLY_IN_A_CHECKOUT = (
    "configs/ and experiments/ are not installed with t2t_jax: type this in a checkout of the code"
)


def parse_flags(name: str, argv: list[str], *, known_only: bool = False) -> list[str]:
    """A `flags_parser` for `app.run`; `name` prefixes its error messages.

    With `known_only`, undefined flags are returned with the other arguments.

    Libraries log only warnings, without stacks, unless --verbosity says otherwise.
    """
    try:
        with may_be_cut_off():
            rest = flags.FLAGS(argv, known_only=known_only)
        for flag in flags.FLAGS:
            hasattr(flags.FLAGS[flag].value, "")  # raises if a config is missing
    except SystemExit as end:
        # How absl ends after printing the help.
        sys.exit(0 if end.code == 1 and _asks_for_help(argv) else end.code)
    except Exception as error:  # a config may raise anything
        if not (sentence := _mistake(argv, error)):
            raise
        sys.exit(f"{name}: {sentence}")
    if flags.FLAGS["verbosity"].using_default_value:
        flags.FLAGS.verbosity = logging.WARNING  # Orbax logs every file it touches
        logging.get_absl_logger().addFilter(_without_stack)
    return rest


@contextlib.contextmanager
def may_be_cut_off() -> Iterator[None]:
    """Ends silently if the reader of standard output, such as `head`, stops reading.

    Raises:
      OSError: it cannot be written; named as the file.
      ValueError: its encoding lacks a letter of what is written.
    """
    try:
        try:
            yield
        finally:
            _flush()
    except BrokenPipeError:
        sys.exit(128 + signal.SIGPIPE)
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        raise ValueError(
            f"standard output is in {error.encoding}, which has no {letter!r}: set "
            "PYTHONIOENCODING=utf-8"
        ) from None


def _flush() -> None:
    if sys.stdout is None or sys.stdout.closed:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python would try to write the rest again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise OSError(error.errno, error.strerror, "standard output") from None


def _asks_for_help(argv: list[str]) -> bool:
    return any(argument.lstrip("-").startswith("help") for argument in argv[1:])


def _mistake(argv: list[str], error: Exception) -> str:
    """What is wrong with the flags or with a config's file; "" if it is neither."""
    if isinstance(error, flags.IllegalFlagValueError):
        wrong = map(_wrong_value, str(error).splitlines())
        return _error_in_a_config(argv, error) or "; ".join(wrong)
    if sentence := _no_python(argv):
        return sentence
    if isinstance(error, ImportError | OSError):
        return _no_config(argv, error)
    if sentence := _error_in_a_config(argv, error):
        return sentence
    if isinstance(error, AttributeError | KeyError | flags.UnrecognizedFlagError):
        return _unknown_flag(argv, error)
    return str(error) if isinstance(error, TypeError | ValueError | flags.Error) else ""


_NOT_OF_THE_TYPE = {
    "invalid literal for int()": "is not a whole number",
    "could not convert string to float": "is not a number",
    "('Non-boolean argument": "is neither true nor false",
}


def _wrong_value(said: str) -> str:
    """Rewords a line of absl's about one or two wrong flags."""
    if missing := re.search(r"Flag --(\S+) must have a value other than None", said):
        return _missing(missing[1])
    if one_of := re.search(r"one of \((\w+), (\w+)\) must have a value other than None", said):
        first, second = one_of.groups()
        if flags.FLAGS[first].value is not None:
            return f"--{first} and --{second} exclude each other: give only one"
        return f"{_missing(first)}; or --{second}: {_help(second)}"
    if helped := re.match(r"flag --(help\w*)=(.*): \('Non-boolean argument", said):
        section = f"={helped[2]}" if helped[2] in {key.section for key in config_keys()} else ""
        keys_listed = f"t2t-jax train --help{section} lists keys of a config"
        return f"--{helped[1]} takes no value here; {keys_listed}"
    if section := re.match(r"flag --(\S+)=.*as a ConfigDict", said):
        return f"--{section[1]} is a section: set its keys, as in --{section[1]}.KEY=value"
    if file := re.match(r"flag --config=(.*): Overriding config is not allowed", said):
        return (
            f"--config={file[1]} is for a new run; this one has its own, of which single keys can "
            "be set, as in --config.KEY=value"
        )
    for reason, words in _NOT_OF_THE_TYPE.items():
        if wrong := re.match(rf"flag --([^=]+)=(.*): {re.escape(reason)}", said):
            if wrong[2].startswith("--"):
                return f"--{wrong[1]} has no value before {wrong[2]}"
            return f"--{wrong[1]}={wrong[2]} {words}"
    return said


def _missing(flag: str) -> str:
    if flags.FLAGS[flag].present:
        return returned_text(flag, None)
    return f"--{flag} is missing: {_help(flag)}"


def returned_text(flag: str, value: object) -> str:
    """What is wrong with a config's file that returns `value`."""
    kind = "None" if value is None else f"a {type(value).__name__}"
    return f"--{flag}: the get_config() of the file must return a ConfigDict, not {kind}"


def _help(flag: str) -> str:
    # absl adds a line to a flag that may be given several times, which says so itself.
    return flags.FLAGS[flag].help.partition(";\n    repeat this option")[0]


def _without_stack(entry: LogRecord) -> bool:
    entry.exc_info = entry.exc_text = None
    return True


def _unknown_flag(argv: list[str], error: Exception) -> str:
    """Which flag or key does not exist, and which may have been meant."""
    config_flags = [name for name in ("config", "base") if name in flags.FLAGS]
    keys = [f"{flag}.{key.path}" for flag in config_flags for key in config_keys()]
    known = [*flags.FLAGS, *keys]
    for argument in argv[1:]:
        name = argument.lstrip("-").partition("=")[0]
        leaf = name.rpartition(".")[2]
        if not argument.startswith("-") or name.removeprefix("no") in known or name in known:
            continue
        if name.startswith("config.") and not config_flags and "workdir" in flags.FLAGS:
            return _missing("workdir")  # whose config has the keys
        if "." in name and not keys and leaf not in str(error):
            continue  # a key that exists: only a checkout knows them all
        first, dot, rest = name.partition(".")
        other = {"config": f"base{dot}{rest}", "base": f"config{dot}{rest}"}.get(first)
        meant = [other] if other in known else [key for key in keys if key.endswith(f".{leaf}")]
        meant = meant or difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        advice = f": did you mean --{' or --'.join(meant)}?" if meant else ", see --help"
        return f"there is no {'key' if '.' in name else 'flag'} --{name}{advice}"
    return str(error)


def _configs(argv: list[str]) -> Iterator[tuple[str, str]]:
    """Flag and value of each given config."""
    for argument, following in itertools.zip_longest(argv, argv[1:], fillvalue=""):
        flag, _, value = argument.lstrip("-").partition("=")
        if argument.startswith("-") and flag in ("config", "base"):
            yield flag, value or following


def _no_python(argv: list[str]) -> str:
    """Which config is not a Python file; "" if all are."""
    for flag, value in _configs(argv):
        path = Path(value)
        if path.exists() and (path.suffix != ".py" or path.is_dir()):
            return (
                f"--{flag}={value} must be a Python file such as configs/tiny.py; keys that "
                f"differ from it are flags, such as --{flag}.seed=1"
            )
    return ""


def _error_in_a_config(argv: list[str], error: Exception) -> str:
    """What is wrong within a config's file, and where; "" if the error is not from there."""
    for _, value in _configs(argv):
        path = value.partition(":")[0]
        if is_from(error, path):
            return f"{path} cannot be read: {described(error, path)}"
    return ""


def _no_config(argv: list[str], error: Exception) -> str:
    """Why a config cannot be read, and where it may be."""
    # Else the error is within that of ml_collections.
    sentence = _error_in_a_config(argv, error) or str(error).rpartition("\n")[2].strip()
    sentence = re.sub(r"^\[Errno \d+\] (.*): '(.*)'$", r"\2: \1", sentence)
    if not Path("configs").is_dir():
        return f"{sentence}; {_ONLY_IN_A_CHECKOUT}"
    for argument in argv[1:]:
        value = argument.partition("=")[2] or argument
        file = Path("configs") / f"{Path(value).stem}.py"
        if repr(value) not in sentence and not sentence.startswith(f"{value}:"):
            continue
        if not file.exists():
            names = [path.stem for path in Path("configs").glob("[!_]*.py")]
            meant = difflib.get_close_matches(file.stem, names, n=1, cutoff=0.75)
            file = file.with_stem(meant[0]) if meant else file
        if file.exists():
            return f"there is no file {value}: did you mean {file}?"
    return sentence
