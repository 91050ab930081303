"""A config from the command line, as the user meant it."""

from collections.abc import Callable, Sequence
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from t2t_jax.cli.command import returned_text


def given_config(
    flag: str,
    log: Callable[[str], None],
    variants: Callable[[ConfigDict], Sequence[ConfigDict]] = lambda config: [config],
    *,
    is_for_here: bool = True,
) -> ConfigDict:
    """The value of --config or --base, with the files of a given corpus.

    If no data.cache was given, it is T2T_JAX_CACHE of the environment, if set.

    Args:
      flag: "config" or "base".
      log: takes a line about what was found.
      variants: the configs made from it; a key that was set must have an effect in one of them.
      is_for_here: whether this machine's environment applies.

    Raises:
      ValueError, TypeError: a key that was set has no effect, several files could be meant, or the
        config's file returns something else.
    """
    from t2t_jax.json_files import flat_dict
    from t2t_jax.runs.keys import own_cache
    from t2t_jax.runs.own_corpus import with_own_corpus

    typed: Any = flags.FLAGS[flag]
    if not isinstance(typed.value, ConfigDict):
        raise TypeError(returned_text(flag, typed.value))
    given = config_flags.get_override_values(typed)
    config: Any = with_own_corpus(typed.value, flag, given, log)
    if is_for_here and "data.cache" not in given and "data.cache" in flat_dict(config.to_dict()):
        config.data.cache = own_cache(config.data.cache)
    check_given(flag, variants(config))
    return config


def check_given(flag: str, configs: Sequence[ConfigDict], verb: str = "") -> None:
    """Raises ValueError if a key that was set has no effect in any of the configs, or on `verb`."""
    from t2t_jax.runs.effect import check_effect

    check_effect(flag, list(config_flags.get_override_values(flags.FLAGS[flag])), configs, verb)
