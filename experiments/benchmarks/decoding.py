"""How fast a trained model translates here, and how fast CTranslate2 does with the same weights.

    python -m experiments.benchmarks.decoding --workdir=W
    python -m experiments.benchmarks.decoding --workdir=W --against=ctranslate2 --beam_sizes=1,4

Translates a split of the run's corpus from text to text, in stages: first with compilation or with
programs of an earlier time, then in rounds in which both take turns. The rate is that of output
tokens a second, in pieces of the vocabulary, the end tokens counted; the ratio is ours over theirs,
round by round. CTranslate2 computes in float32, with as many threads as there are cores, and with
the size of batches that it is fastest with.
"""

import dataclasses
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import app, flags

from t2t_jax.cli.command import parse_flags

if TYPE_CHECKING:  # what is heavy is imported where it works: --help does not wait
    from t2t_jax.runs.workdir import Trained

_THEIR_BATCHES = (16, 32, 64, 128, 256)  # sentences

Translate = Callable[[Sequence[str]], list[str]]


def measure(
    trained: "Trained", lines: Sequence[str], rounds: int, against: str
) -> dict[str, float | int | str | list[float]]:
    """Seconds, output tokens a second, and where there is another the ratio and what differs."""
    from t2t_jax.runs.translate import make_translator

    def count(outputs: Sequence[str]) -> int:
        return sum(map(len, trained.vocabulary.encode(list(outputs)))) + len(outputs)

    started = time.perf_counter()
    translator = make_translator(trained, in_stages=True)

    def ours(lines: Sequence[str]) -> list[str]:
        return [best[0].text for best in translator(lines)]

    outputs = ours(lines)
    first_seconds = time.perf_counter() - started
    theirs = _ctranslate2(trained, lines) if against == "ctranslate2" else None
    seconds: list[float] = []
    their_seconds: list[float] = []
    their_outputs: list[str] = []
    for _ in range(rounds):
        seconds.append(_timed(ours, lines)[0])
        if theirs is not None:
            spent, their_outputs = _timed(theirs, lines)
            their_seconds.append(spent)
    num_tokens = count(outputs)
    measured: dict[str, Any] = {
        "beam_size": trained.sections.decoding.beam_size,
        "sentences": len(lines),
        "output_tokens": num_tokens,
        "first_pass_seconds": round(first_seconds, 2),
        "tokens_per_second": round(num_tokens / statistics.median(seconds)),
    }
    if theirs is not None:
        ratios = [
            count(outputs) / spent / (count(their_outputs) / other)
            for spent, other in zip(seconds, their_seconds, strict=True)
        ]
        measured |= {
            "ctranslate2_tokens_per_second": round(
                count(their_outputs) / statistics.median(their_seconds)
            ),
            "ratio": round(statistics.median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in sorted(ratios)],
            "outputs_that_differ": sum(map(str.__ne__, outputs, their_outputs)),
        }
    return measured


def _timed(translate: Translate, lines: Sequence[str]) -> tuple[float, list[str]]:
    started = time.perf_counter()
    outputs = translate(lines)
    return time.perf_counter() - started, outputs


def _ctranslate2(trained: "Trained", lines: Sequence[str]) -> Translate:
    """The same model and search there, in the size of batches that is fastest."""
    ctranslate2: Any = importlib.import_module("ctranslate2")  # of the extra parity

    from t2t_jax.cores import own_cores
    from t2t_jax.interop.ctranslate2_export import export_ctranslate2

    vocabulary, config = trained.vocabulary, trained.sections.decoding
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory) / "model"
        export_ctranslate2(
            trained.sections.model, trained.params, vocabulary, model, max_positions=512
        )
        translator = ctranslate2.Translator(
            str(model), compute_type="float32", intra_threads=len(own_cores())
        )
    pieces = [vocabulary.piece(number) for number in range(vocabulary.size)]
    ids_of = {piece: number for number, piece in enumerate(pieces)}

    def translate_by(batch_size: int) -> Translate:
        def translate(lines: Sequence[str]) -> list[str]:
            sources = [[pieces[number] for number in ids] for ids in vocabulary.encode(list(lines))]
            found = translator.translate_batch(
                sources,
                max_batch_size=batch_size,
                beam_size=config.beam_size,
                length_penalty=config.length_penalty,
                max_decoding_length=config.max_tokens or 256,
            )
            return vocabulary.decode(
                [[ids_of[piece] for piece in row.hypotheses[0]] for row in found]
            )

        return translate

    _timed(translate_by(_THEIR_BATCHES[0]), lines)
    seconds = {size: _timed(translate_by(size), lines)[0] for size in _THEIR_BATCHES}
    return translate_by(min(seconds, key=seconds.__getitem__))


def main(argv: list[str]) -> None:
    """Measures."""
    from t2t_jax.data.corpora.corpus import read_pairs
    from t2t_jax.runs.kept_programs import keep_programs
    from t2t_jax.runs.workdir import load_trained

    given = flags.FLAGS
    keep_programs()
    try:
        trained = load_trained(Path(given.workdir))
        lines = [source for source, _ in read_pairs(trained.sections.data, given.split)]
    except ValueError as error:
        sys.exit(f"decoding: {error}")
    if given.lines:
        lines = lines[: given.lines]
    for beam_size in map(int, given.beam_sizes):
        decoding = dataclasses.replace(trained.sections.decoding, beam_size=beam_size, n_best=1)
        sections = trained.sections._replace(decoding=decoding)
        measured = measure(trained._replace(sections=sections), lines, given.rounds, given.against)
        print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    flags.DEFINE_string("workdir", None, "directory of a finished run", required=True)
    flags.DEFINE_string("split", "test", "split of its corpus that is translated")
    flags.DEFINE_integer("lines", 0, "of the split, the first so many; 0: all", lower_bound=0)
    flags.DEFINE_list("beam_sizes", ["1", "4"], "beam sizes, one after the other")
    flags.DEFINE_integer("rounds", 5, "after the first pass", lower_bound=1)
    flags.DEFINE_enum("against", "", ["", "ctranslate2"], "what it takes turns with")
    app.run(main, flags_parser=partial(parse_flags, "decoding"))
