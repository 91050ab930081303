"""A trained model in other libraries: the same weights, the same search, from text to text.

They score a translation by its log-probability over n^alpha. With beams, each ends a sentence by
its own rule, which may miss the best translation; `as_thorough` makes it go on as ours does, while
something better can come.
"""

import dataclasses
import importlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_jax.cores import own_cores

if TYPE_CHECKING:  # heavy libraries are imported when used: --help is fast
    from t2t_jax.runs.workdir import Trained

Translate = Callable[[Sequence[str]], list[str]]
_MAX_TOKENS = 256  # of a translation, if the config sets no limit
_MAX_POSITIONS = 512  # of the exported model
# CTranslate2 ends a sentence after this many times its beams have ended; with 10 its translations
# are ours, by tests/parity/test_translations.py.
_OWN_PATIENCE, _AS_THOROUGH = 1, 10


class Peer(NamedTuple):
    """A library with a model; how many sentences are a batch, and how many batches go at once."""

    translate: Callable[..., list[str]]  # (lines, batch_size=, at_once=)
    at_once: Sequence[int] = (1,)  # the choices there are


def ctranslate2(trained: "Trained", *, as_thorough: bool = False) -> Peer:
    """In float32, on all cores: together on one batch, or each on its own."""
    library: Any = importlib.import_module("ctranslate2")  # of the extra parity

    vocabulary, config = trained.vocabulary, trained.sections.decoding
    cores = len(own_cores())
    pieces = [vocabulary.piece(number) for number in range(vocabulary.size)]
    ids_of = {piece: number for number, piece in enumerate(pieces)}
    held: dict[int, Any] = {}

    def translator(at_once: int) -> Any:
        if at_once not in held:
            held.clear()  # two in a process slow each other down
            with tempfile.TemporaryDirectory() as directory:
                model = _exported(trained, "ctranslate2", Path(directory))
                threads = dict(inter_threads=at_once, intra_threads=cores // at_once)
                held[at_once] = library.Translator(str(model), compute_type="float32", **threads)
        return held[at_once]

    def translate(lines: Sequence[str], batch_size: int, at_once: int) -> list[str]:
        sources = [[pieces[number] for number in ids] for ids in vocabulary.encode(list(lines))]
        found = translator(at_once).translate_batch(
            sources,
            max_batch_size=batch_size,
            beam_size=config.beam_size,
            length_penalty=config.length_penalty,
            patience=_AS_THOROUGH if as_thorough else _OWN_PATIENCE,
            max_decoding_length=config.max_tokens or _MAX_TOKENS,
        )
        return vocabulary.decode([[ids_of[piece] for piece in row.hypotheses[0]] for row in found])

    return Peer(translate, sorted({1, cores}))


def transformers(trained: "Trained", *, as_thorough: bool = False) -> Peer:
    """In batches of similar length, on a GPU if PyTorch has one."""
    torch: Any = importlib.import_module("torch")  # of the extra parity, like the next
    library: Any = importlib.import_module("transformers")

    from t2t_jax.data.vocabulary.vocabulary import END_ID, PAD_ID

    vocabulary, config = trained.vocabulary, trained.sections.decoding
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as directory:
        exported = _exported(trained, "marian", Path(directory))
        model = library.MarianMTModel.from_pretrained(exported).eval().to(device)
    options: dict[str, Any] = dict(num_beams=config.beam_size, max_length=None)
    options |= dict(early_stopping="never" if as_thorough else False)
    # Greedy search does not use it and gets the default.
    options |= dict(length_penalty=config.length_penalty if config.beam_size > 1 else 1.0)

    def translate(lines: Sequence[str], batch_size: int, at_once: int) -> list[str]:
        sources = [[*ids, END_ID] for ids in vocabulary.encode(list(lines))]
        order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
        found: list[list[int]] = [[] for _ in lines]
        for first in range(0, len(order), batch_size):
            places = order[first : first + batch_size]
            rows = [torch.tensor(sources[place]) for place in places]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID)
            most = config.max_tokens or ids.shape[1] + config.max_extra_tokens
            with torch.no_grad():
                made = model.generate(
                    ids.to(device),
                    attention_mask=(ids != PAD_ID).long().to(device),
                    max_new_tokens=most,
                    **options,
                )
            for place, row in zip(places, made[:, 1:].tolist(), strict=True):
                found[place] = row
        return vocabulary.decode(found)

    return Peer(translate)


def _exported(trained: "Trained", format: str, directory: Path) -> Path:
    from t2t_jax.interop.marian import NORM_EPSILON
    from t2t_jax.runs.export import export

    # The only value that MarianMT has; it changes a logit by about 1e-5.
    model = dataclasses.replace(trained.sections.model, norm_epsilon=NORM_EPSILON)
    if format == "marian":
        trained = trained._replace(sections=trained.sections._replace(model=model))
    export(trained, format, directory / format, _MAX_POSITIONS)
    return directory / format


# Package -> function that gives it a trained model.
PEERS: dict[str, Callable[..., Peer]] = {
    "ctranslate2": ctranslate2,
    "transformers": transformers,
}
