"""How fast a trained model translates here, compared with other libraries with the same weights.

    python -m experiments.benchmarks --parts=decode --workdir=W
    python -m experiments.benchmarks --parts=decode --workdir=W --against=ctranslate2 --lines=200
    python -m experiments.benchmarks --parts=decode --workdir=W --against=transformers

Translates the test split of the run's corpus from text to text, in stages: a first pass, in which
ours compiles or loads what an earlier run compiled, then rounds in which all take turns. The rate
is in output tokens/s, in pieces of the vocabulary, end tokens included. Then sentences one at a
time, as from a waiting user. Ours is measured in float32 and "rounded", with
decoding.weights_dtype=bfloat16. The others and the roof compute in float32, CTranslate2 on all
cores, transformers on a GPU if PyTorch has one, each in its fastest way: batch size, and all cores
on one batch or each on its own, chosen anew for single sentences. Beside them, ours divides by
n^alpha as they do, and with beams they are measured twice: ending a sentence by their own rule, and
"as thorough" as ours.
"""

import dataclasses
import functools
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.benchmarks import roof
from experiments.benchmarks.peers.translators import PEERS, Peer, Translate
from experiments.benchmarks.results import Measured, in_turns, over

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from t2t_jax.decoding.config import WeightsDtype
    from t2t_jax.runs.workdir import Trained

_THEIR_BATCHES = (16, 32, 64, 128, 256)  # sentences
_SINGLE = 50  # sentences sent one at a time
_ROUNDED = "ours, rounded"

_Ways = tuple[Translate, Translate]  # whole files, and one sentence at a time


def measure(
    trained: "Trained", lines: Sequence[str], rounds: int, peers: Sequence[str]
) -> list[Measured]:
    """Tokens/s for whole splits and milliseconds for single sentences, with ratios."""
    beam_size = trained.sections.decoding.beam_size
    search = "greedy" if beam_size == 1 else f"beam of {beam_size}"
    ours = {"ours": _ways(trained, "float32")}
    if trained.sections.model.dtype == "float32":
        ours[_ROUNDED] = _ways(trained, "bfloat16")
    others = [(peer, peer, False) for peer in peers]
    if beam_size > 1:
        others += [(f"{peer} as thorough", peer, True) for peer in peers]
    measured = [] if others else _beside({}, ours, trained, lines, rounds)
    for name, peer, as_thorough in others:
        # One at a time: two users of OpenMP in a process slow each other down, up to nine times.
        ways = _fastest_ways(PEERS[peer](trained, as_thorough=as_thorough), lines)
        found = _beside({name: ways}, ours, trained, lines, rounds)
        measured += [each for each in found if not measured or name in each.what]
        del ways
        gc.collect()
    return [each._replace(what=f"{search}, {each.what}") for each in measured]


def _beside(
    others: dict[str, _Ways],
    ours: dict[str, _Ways],
    trained: "Trained",
    lines: Sequence[str],
    rounds: int,
) -> list[Measured]:
    both = {**ours, **others}
    pairs = [(own, peer) for peer in others for own in ours]
    if _ROUNDED in ours:
        pairs = [(_ROUNDED, "ours"), *pairs]
    whole = {name: whole for name, (whole, _) in both.items()}
    single = {name: single for name, (_, single) in both.items()}
    return _whole(trained, whole, pairs, lines, rounds) + _one_by_one(single, pairs, lines, rounds)


def _whole(
    trained: "Trained",
    translators: dict[str, Translate],
    pairs: Sequence[tuple[str, str]],
    lines: Sequence[str],
    rounds: int,
) -> list[Measured]:
    def count(outputs: Sequence[str]) -> int:
        return sum(map(len, trained.vocabulary.encode(list(outputs)))) + len(outputs)

    first = {name: _timed(each, lines) for name, each in translators.items()}
    tokens = {name: count(outputs) for name, (_, outputs) in first.items()}
    beams = trained.sections.decoding.beam_size
    run: dict[str, Callable[[], float]] = {
        name: lambda each=each: _timed(each, lines)[0] for name, each in translators.items()
    }
    if roof.is_plain(trained.sections.model):
        products = roof.of_decoding(trained.sections.model, count(lines), beams * tokens["ours"])
        products()  # compiled
        run[roof.PRODUCTS] = products
        tokens[roof.PRODUCTS] = tokens["ours"]
    seconds = in_turns(run, rounds)
    measured = [Measured("ours, first pass", "s", [first["ours"][0]])]
    for name, taken in seconds.items():
        measured.append(Measured(name, "tokens/s", [tokens[name] / each for each in taken]))
    if roof.PRODUCTS in seconds:
        measured.append(over("ours over the roof", seconds[roof.PRODUCTS], seconds["ours"]))
    rates = {name: [tokens[name] / each for each in seconds[name]] for name in first}
    for one, other in pairs:
        measured.append(over(f"{one} over {other}", rates[one], rates[other]))
        num_others = sum(map(str.__ne__, first[one][1], first[other][1]))
        share = 100 * num_others / len(lines)
        measured.append(Measured(f"{one}, other outputs than {other}", "%", [share]))
    return measured


def _one_by_one(
    single: dict[str, Translate],
    pairs: Sequence[tuple[str, str]],
    lines: Sequence[str],
    rounds: int,
) -> list[Measured]:
    """Milliseconds for our first sentence, which compiles, and for all in the later rounds."""
    lines = lines[:_SINGLE]

    def milliseconds(translate: Translate) -> list[float]:
        return [1e3 * _timed(translate, [line])[0] for line in lines]

    run = {name: functools.partial(milliseconds, each) for name, each in single.items()}
    taken = in_turns(run, rounds + 1)
    measured = [Measured("first sentence, ours", "ms", [taken["ours"][0][0]])]
    for percent in (50, 95):
        found = {
            name: [float(np.percentile(each, percent)) for each in all[1:]]
            for name, all in taken.items()
        }
        what = f"one sentence, {percent}th percentile"
        measured += [Measured(f"{what}, {name}", "ms", each) for name, each in found.items()]
        for one, peer in pairs:
            measured.append(over(f"{what}, {peer} over {one}", found[peer], found[one]))
    return measured


def _timed(translate: Translate, lines: Sequence[str]) -> tuple[float, list[str]]:
    started = time.perf_counter()
    outputs = translate(lines)
    return time.perf_counter() - started, outputs


def _ways(trained: "Trained", weights_dtype: "WeightsDtype") -> _Ways:
    decoding = dataclasses.replace(trained.sections.decoding, weights_dtype=weights_dtype)
    trained = trained._replace(sections=trained.sections._replace(decoding=decoding))
    return _ours(trained, in_stages=True), _ours(trained)


def _ours(trained: "Trained", *, in_stages: bool | None = None) -> Translate:
    """Our translator, created at the first call."""
    from t2t_jax.runs.translate import make_translator

    make = functools.cache(lambda: make_translator(trained, in_stages=in_stages))
    return lambda lines: [best[0].text for best in make()(lines)]


def _fastest_ways(peer: Peer, lines: Sequence[str]) -> tuple[Translate, Translate]:
    """The peer's fastest ways to translate all lines, and one at a time."""
    few, (smallest, *larger) = lines[:_SINGLE], _THEIR_BATCHES
    sizes = [smallest, *(size for size in larger if size < 2 * len(lines))]
    whole: dict[Translate, float] = {}
    single: dict[Translate, float] = {}
    for at_once in peer.at_once:
        ways = [
            functools.partial(peer.translate, batch_size=size, at_once=at_once) for size in sizes
        ]
        ways[0](few)  # so that none is timed when it is new
        single[ways[0]] = sum(_timed(ways[0], [line])[0] for line in few)
        whole |= {way: _timed(way, lines)[0] for way in ways}
    return min(whole, key=whole.__getitem__), min(single, key=single.__getitem__)


def trained_or_kept(workdir: str) -> Path:
    """The directory of a run: the given one, else `tiny`, trained once and kept.

    Raises:
      ValueError: its training failed; its output says why.
    """
    from t2t_jax.runs.keys import own_cache

    if workdir:
        return Path(workdir)
    kept = Path(own_cache()).expanduser() / "benchmarks" / "tiny"
    command = [sys.executable, "-m", "t2t_jax.cli.main", "train", "--config=configs/tiny.py"]
    if subprocess.run([*command, f"--workdir={kept}"]).returncode:
        raise ValueError(f"{kept} cannot be trained: the reason stands above")
    return kept


def measure_run(
    workdir: Path, num_lines: int, rounds: int, peers: Sequence[str]
) -> Iterator[Measured]:
    """Measures a trained model, greedy, then with a beam of 4, on `num_lines` of test; 0 is all."""
    from t2t_jax.data.corpora.corpus import read_pairs
    from t2t_jax.runs.workdir import load_trained

    trained = load_trained(workdir)
    lines = [source for source, _ in read_pairs(trained.sections.data, "test")]
    for beam_size in (1, 4):
        decoding = dataclasses.replace(trained.sections.decoding, beam_size=beam_size, n_best=1)
        if peers:
            decoding = dataclasses.replace(decoding, length_penalty_formula="power")
        sections = trained.sections._replace(decoding=decoding)
        one = trained._replace(sections=sections)
        yield from measure(one, lines[: num_lines or None], rounds, peers)
