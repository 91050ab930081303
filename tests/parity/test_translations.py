"""Translations of an exported model by CTranslate2 and `transformers` equal ours, token for token.

All search with the same formula, log-probability / n^alpha. What else has to agree:

- when to stop. Ours goes on as long as something better can come. So does `generate` with
  early_stopping="never", which the export writes; CTranslate2 stops when as many hypotheses have
  ended as there are beams, or `patience` times as many, hence a patience of 10.
- what happens at the longest output. Ours must end there with the probability that the model gives
  the end; `generate` ends there with probability 1, CTranslate2 does not end. Sentences that come
  so far are not compared, and counted.
- what may be generated. In ours padding, start and rows without a token cannot come, the others
  keep their probabilities; so in `generate`. What goes out to CTranslate2 has a bias of -1e9 at
  these rows, so that the others share their probability. It is compared with ours with that bias;
  how many are equal without it is printed too.
- what a score is. CTranslate2's search gives scores that are up to 0.002 off the ones that its own
  `score_batch` gives to the same tokens, which are ours. Where that decides between two
  translations it may choose the other; none of these are known.
"""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
ctranslate2 = pytest.importorskip("ctranslate2")

from experiments.benchmarks import decoding  # noqa: E402
from experiments.benchmarks.peers.translators import PEERS  # noqa: E402
from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID  # noqa: E402
from t2t_jax.decoding.translate import make_decode  # noqa: E402
from t2t_jax.interop.exporting import never_generated  # noqa: E402
from t2t_jax.interop.vocabulary import SILENT  # noqa: E402
from t2t_jax.model.families import make_model  # noqa: E402
from t2t_jax.runs import workdir  # noqa: E402
from t2t_jax.runs.prepare import prepare  # noqa: E402

pytestmark = pytest.mark.parity
REPOSITORY = Path(__file__).parents[2]
NUM_SENTENCES = 256
AT_LEAST = 200  # of them must end by themselves, and so be compared
MAX_TOKENS = 48
ALPHA = 0.6
CONFIG = {
    "data.vocabulary_size": 500,
    "data.num_buckets": 2,
    "model.vocabulary_rows": 512,  # some of which are no pieces
    "model.d_model": 64,
    "model.d_ff": 128,
    "model.d_k": 16,
    "model.d_v": 16,
    "model.norm_epsilon": 1e-5,
    "training.steps": 500,
    "training.warmup_steps": 50,
    "training.peak_learning_rate": 0.004,
    "training.evaluate_every_steps": 500,
    "training.checkpoint_every_steps": 500,
    "decoding.length_penalty": ALPHA,
    "decoding.length_penalty_formula": "power",
    "decoding.max_tokens": MAX_TOKENS,
    "devices.data": 1,
}


class Exported(NamedTuple):
    """A model of ours, the same one as directories of others, and what to translate."""

    trained: workdir.Trained
    marian: Path
    ctranslate2: Path
    texts: list[str]
    sources: list[list[int]]


def t2t_jax(*arguments):
    command = [sys.executable, "-m", "t2t_jax.cli.main", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Trained for a minute by the commands that a person would use, in processes of their own."""
    directory = tmp_path_factory.mktemp("translations")
    run = directory / "w"
    changes = [f"--config.{key}={value}" for key, value in CONFIG.items()]
    changes.append(f"--config.data.cache={directory / 'cache'}")
    t2t_jax("train", "--config=configs/tiny.py", f"--workdir={run}", *changes)
    for name in ("marian", "ctranslate2"):
        t2t_jax("export", f"--workdir={run}", f"--format={name}", f"--output={directory / name}")
    trained = workdir.load_trained(run)
    test = prepare(trained.sections).splits["test"]
    ends = test.source_offsets[: NUM_SENTENCES + 1]
    sources = [
        test.source_ids[start:stop].tolist()
        for start, stop in zip(ends[:-1], ends[1:], strict=True)
    ]
    texts = trained.vocabulary.decode(sources)
    return Exported(trained, directory / "marian", directory / "ctranslate2", texts, sources)


def source_ids(exported):
    ids = np.full((NUM_SENTENCES, max(map(len, exported.sources))), PAD_ID, np.int32)
    for row, source in enumerate(exported.sources):
        ids[row, : len(source)] = source
    return ids


def until_end(ids):
    ids = [int(token_id) for token_id in ids]
    return ids[: ids.index(END_ID) + 1] if END_ID in ids else ids


class Found(NamedTuple):
    """The best hypothesis of each sentence."""

    beam_size: int
    ids: list[list[int]]
    scores: np.ndarray


def found_by_ours(exported, beam_size, model, params):
    trained = exported.trained
    config = dataclasses.replace(trained.sections.decoding, beam_size=beam_size, n_best=1)
    decode = jax.jit(make_decode(model, config, trained.vocabulary.size))
    found = decode(params, jnp.asarray(source_ids(exported)))
    ids = [until_end(row) for row in np.asarray(found.ids)[:, 0]]
    return Found(beam_size, ids, np.asarray(found.scores)[:, 0])


@pytest.fixture(scope="session", params=[1, 4], ids=["greedy", "beam of 4"])
def ours(request, exported):
    trained = exported.trained
    return found_by_ours(exported, request.param, trained.model, trained.params)


def with_silenced_rows(trained):
    """Our model and parameters with the bias that goes out to CTranslate2."""
    config = dataclasses.replace(trained.sections.model, output_bias=True)
    bias = np.zeros(config.vocabulary_rows, np.float32)
    bias[never_generated(trained.vocabulary, config.vocabulary_rows)] = SILENT
    return make_model(config), {**trained.params, "output": {"bias": jnp.asarray(bias)}}


def compare(note, peer, ours, theirs):
    """Where ours did not come to its longest output, and where in these places theirs differ."""
    compared = [place for place, row in enumerate(ours.ids) if len(row) < MAX_TOKENS]
    differing = [place for place in compared if ours.ids[place] != theirs[place]]
    search = "greedy" if ours.beam_size == 1 else f"beam of {ours.beam_size}"
    num_equal = len(compared) - len(differing)
    note(search, peer, len(compared), num_equal, NUM_SENTENCES - len(compared))
    assert num_equal >= AT_LEAST
    return compared, differing


def test_tokens_of_the_exported_tokenizer(exported):
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported.marian)
    assert tokenizer(exported.texts)["input_ids"] == exported.sources
    assert tokenizer.batch_decode(exported.sources, skip_special_tokens=True) == exported.texts


def test_generate(exported, ours, translations_compared):
    model = transformers.MarianMTModel.from_pretrained(exported.marian).eval()
    assert model.generation_config.length_penalty == ALPHA
    ids = torch.tensor(source_ids(exported)).long()
    options = dict(max_new_tokens=MAX_TOKENS, max_length=None, num_beams=ours.beam_size)
    if ours.beam_size == 1:  # of which these would be told to be for beams only
        options |= dict(early_stopping=False, length_penalty=1.0)
    with torch.no_grad():
        found = model.generate(
            ids,
            attention_mask=(ids != PAD_ID).long(),
            return_dict_in_generate=True,
            output_scores=True,
            **options,
        )
    theirs = [until_end(row[1:]) for row in found.sequences]
    compared, differing = compare(translations_compared, "HF generate", ours, theirs)
    assert not differing
    if ours.beam_size > 1:
        difference = np.abs(ours.scores - found.sequences_scores.numpy())[compared]
        assert difference.max() < 1e-4


def test_ctranslate2(exported, ours, translations_compared):
    trained = exported.trained
    piece = trained.vocabulary.piece
    ids_of = {piece(token_id): token_id for token_id in range(trained.vocabulary.size)}
    pieces = [[piece(token_id) for token_id in source[:-1]] for source in exported.sources]
    translator = ctranslate2.Translator(str(exported.ctranslate2), compute_type="float32")
    found = translator.translate_batch(
        pieces,
        beam_size=ours.beam_size,
        patience=10 if ours.beam_size > 1 else 1,
        length_penalty=ALPHA,
        max_decoding_length=MAX_TOKENS,
        return_end_token=True,
    )
    theirs = [[ids_of[piece] for piece in row.hypotheses[0]] for row in found]
    compare(translations_compared, "CTranslate2, ours without the bias", ours, theirs)
    ours = found_by_ours(exported, ours.beam_size, *with_silenced_rows(trained))
    compared, differing = compare(translations_compared, "CTranslate2", ours, theirs)

    def scores(hypotheses):
        targets = [[piece(token_id) for token_id in ids[:-1]] for ids in hypotheses]
        rows = [row.log_probs for row in translator.score_batch(pieces, targets)]
        return np.array([sum(row) / len(row) ** ALPHA for row in rows])

    scores_of_ours = scores(ours.ids)
    if ours.beam_size == 1:
        assert not differing
    else:
        assert np.abs(ours.scores - scores_of_ours)[compared].max() < 1e-4
        assert np.all(np.abs(scores(theirs) - scores_of_ours)[differing] < 0.005)


@pytest.mark.parametrize("peer", PEERS)
def test_the_benchmark_of_decoding_takes_turns_with(exported, peer):
    lines = exported.texts[:60]
    measured = decoding.measure(exported.trained, lines, rounds=2, peers=[peer])
    found = {each.what.removeprefix("beam of 4, "): each.values for each in measured}
    for name in (f"ours over {peer}", f"one sentence, 95th percentile, {peer} over ours"):
        assert len(found[name]) == 2 and min(found[name]) > 0
    # Those of both that did not come to an end, and a few: theirs stops a beam earlier.
    assert found[f"ours, other outputs than {peer}"] <= [33.4]
