"""t2t-jax explain: one sentence on its way through a model, as a web page.

    t2t-jax explain --workdir=W --source="The dog sees the cat." --output=page.html
    t2t-jax explain --workdir=W --source="The dog sees the cat." --output=page.html --language=de
    t2t-jax explain --workdir=W --source="The dog sees the cat." --output=page.html --control
    t2t-jax explain --workdir=W --source="The dog sees the cat." --output=head.pdf --head=1
    t2t-jax explain --model=hf:DIR --prompt="The dog" --output=page.html

The page needs no other file and no network. It shows pieces and ids, embedding, positions, every
head of every attention, residuals, feed-forward, the output token by token, and the search as a
tree. --source or --prompt may be given several times: the page then has a list to choose from.

--compare=W2 puts another model beside this one; --control, the same model with random queries, keys
and values, to show what was learned. The ending of --output, or --format, says what is written:
html; json, all tokens and arrays; csv, statistics of each head; png, svg and pdf, one figure:
--figure=attention (see --attention, --layer and --head; all heads without --head), contexts,
embedding, positions, residual, feed_forward, steps or search.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from t2t_jax.cli.workdir_flags import define_model_flags

if TYPE_CHECKING:
    from t2t_jax.explain.document import Document
    from t2t_jax.runs.workdir import UsableModel

_FIGURE_FORMATS = ("png", "svg", "pdf")
_OF_A_RUN = ("config.json", "training.json", "run.json", "record.json")
_FORMATS = ("html", "json", "csv", *_FIGURE_FORMATS)
_OF_A_HEAD = ("attention", "contexts")
# As in figures.py, which --help need not wait for.
_FIGURES = (
    *(*_OF_A_HEAD, "embedding", "positions"),
    *("residual", "feed_forward", "steps", "search"),
)
_FLAGS_OF_A_HEAD = ("attention", "layer", "head")
_LOOKS = ("encoder", "decoder", "cross", "pooling")


def define_flags(arguments: list[str]) -> None:
    """Defines the flags of this verb."""
    define_model_flags(arguments, __name__)
    flags.DEFINE_multi_string("source", None, "a sentence; may be given several times")
    flags.DEFINE_multi_string("prompt", None, "the beginning of a text; may be repeated")
    flags.DEFINE_string("output", None, "the file to write")
    flags.DEFINE_enum("format", None, _FORMATS, "default: the ending of --output")
    flags.DEFINE_enum("language", "en", ["en", "de"], "language of the page and of figures")
    flags.DEFINE_string("compare", None, "W2 or hf:DIR, a model to show beside this one")
    flags.DEFINE_bool("control", False, "show beside it the same model with random projections")
    flags.DEFINE_enum("figure", "attention", _FIGURES, "png, svg and pdf: what to draw")
    flags.DEFINE_enum(
        "attention", None, _LOOKS, "figure: which attention; default: the model's first"
    )
    flags.DEFINE_integer("layer", 1, "figure: which layer, from 1", lower_bound=1)
    flags.DEFINE_integer(
        "head",
        None,
        "figure: which head, from 1; default: all, of contexts the first",
        lower_bound=1,
    )
    flags.DEFINE_integer("top_n", 5, "likeliest next tokens to show per step", lower_bound=1)
    flags.DEFINE_integer(
        "max_new_tokens",
        12,
        "language model: most tokens after the text",
        lower_bound=1,
        upper_bound=128,
    )
    flags.mark_flag_as_required("output")
    flags.mark_flags_as_mutual_exclusive(["source", "prompt"], required=True)


def main() -> None:
    """Runs the verb."""
    from t2t_jax import hosts
    from t2t_jax.cli.chosen_model import model_of_flags
    from t2t_jax.explain.explained import explain, explain_control
    from t2t_jax.json_files import DiskFullError, write_bytes

    if hosts.are_several():
        raise ValueError("explain writes one file: run it on one host")
    values = flags.FLAGS
    output = _output()
    kind = _format(output)
    _check_flags_of_figures(kind)
    texts = values.source or values.prompt
    if values.compare is not None and values.control:
        raise ValueError("--compare and --control both put a model beside this one: give one")
    is_beside = values.compare is not None or values.control
    if kind not in ("html", "json") and (len(texts) > 1 or is_beside):
        raise ValueError(
            f"--format={kind} shows one sentence and one model: give one --source or --prompt, and "
            "neither --compare nor --control"
        )
    trained = model_of_flags()
    other = None if values.compare is None else _other(values.compare)
    options = dict(top_n=values.top_n, max_new_tokens=values.max_new_tokens)
    names = [values.workdir or values.model, *([] if other is None else [values.compare])]
    labels = _labels(names)
    sentences = []
    for text in texts:
        documents = [explain(trained, text, label=labels[0], **options)]
        if other is not None:
            documents.append(explain(other, text, label=labels[1], **options))
        if values.control:
            documents.append(explain_control(trained, documents[0]))
        sentences.append(documents)
    content = _content(kind, sentences)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(output, content)
    except DiskFullError:
        raise
    except OSError as error:
        raise ValueError(f"--output={output} cannot be written: {error.strerror}") from error
    print(f"written: {output}, {len(content) / 1e3:,.1f} kB")


def _output() -> Path:
    """The path of the file, checked before the model is loaded.

    Raises:
      ValueError: the file cannot be written there.
    """
    from t2t_jax.buckets import local_path

    output = local_path(flags.FLAGS.output, "--output")
    if output.is_dir():
        raise ValueError(f"--output={output} is a directory: name a file in it")
    if output.exists() and not output.is_file():
        raise ValueError(f"--output={output} is a pipe or a device: name a file")
    above = next(each for each in output.absolute().parents if each.exists())
    if not above.is_dir():
        raise ValueError(f"--output={output} cannot be written: {above} is not a directory")
    if output.exists() and (output.name in _OF_A_RUN or output.parent.name == "scores"):
        raise ValueError(
            f"--output={output} is a file of a run, and is left as it is: name another"
        )
    # Check the file's own mode: for root, and for a rename, everything is writable.
    if output.exists() and not output.stat().st_mode & stat.S_IWUSR:
        raise ValueError(f"--output={output} is read-only, and is left as it is")
    return output


def _format(output: Path) -> str:
    """The format to write.

    Raises:
      ValueError: neither --format nor the file's ending gives it.
    """
    kind = flags.FLAGS.format or output.suffix.removeprefix(".").lower()
    if kind not in _FORMATS:
        raise ValueError(
            f"--output={output} does not say what it is to be: let it end in one of "
            f"{', '.join(_FORMATS)}, or give --format"
        )
    return kind


def _check_flags_of_figures(kind: str) -> None:
    """Checks that no flag is given that has no effect on this format.

    Raises:
      ValueError: one is.
    """
    figure = flags.FLAGS.figure
    is_figure = kind in _FIGURE_FORMATS
    for name, has_effect in (
        ("language", kind == "html" or is_figure),
        ("top_n", kind in ("html", "json") or (is_figure and figure == "steps")),
    ):
        if flags.FLAGS[name].present and not has_effect:
            where = f"--figure={figure}" if is_figure else kind
            raise ValueError(f"--{name} has no effect on {where}")
    given = [name for name in ("figure", *_FLAGS_OF_A_HEAD) if flags.FLAGS[name].present]
    if given and not is_figure:
        raise ValueError(
            f"--{given[0]} has no effect on {kind}, only on figures: {', '.join(_FIGURE_FORMATS)}"
        )
    given = [name for name in given if name in _FLAGS_OF_A_HEAD]
    if given and figure not in _OF_A_HEAD:
        raise ValueError(
            f"--{given[0]} has no effect on --figure={figure}, only on {', '.join(_OF_A_HEAD)}"
        )


def _labels(names: Sequence[str]) -> list[str]:
    """The names of models: the ends of their paths, long enough to differ."""
    paths = [Path(os.path.abspath(name.removeprefix("hf:"))) for name in names]
    for length in range(1, max(len(path.parts) for path in paths)):
        found = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(found)) == len(found):
            return found
    return [path.name for path in paths]


def _other(name: str) -> "UsableModel":
    """The model of --compare, with its own config."""
    from t2t_jax.buckets import directory_of
    from t2t_jax.runs import pretrained
    from t2t_jax.runs.workdir import load_trained

    if name.startswith("hf:"):
        directory = pretrained.directory_of(name, "compare")
        return pretrained.load(directory, pretrained.default_config(directory))
    return load_trained(directory_of(name, "--compare"))


def _content(kind: str, sentences: "Sequence[Sequence[Document]]") -> bytes:
    """The bytes of the file."""
    values = flags.FLAGS
    document = sentences[0][0]
    match kind:
        case "html":
            from t2t_jax.explain.page import page

            return page(sentences, values.language).encode()
        case "json":
            from t2t_jax.explain.document import as_lists
            from t2t_jax.json_files import finite, json_text

            return (json_text(finite(as_lists(sentences))) + "\n").encode()
        case "csv":
            from t2t_jax.explain.statistics import csv_text, head_statistics

            return csv_text(head_statistics(document)).encode()
        case _:
            return _figure(kind, document)


def _figure(kind: str, document: "Document") -> bytes:
    """The figure that the flags name."""
    from t2t_jax.explain.figures import FIGURES, file_of

    values = flags.FLAGS
    options = dict(language=values.language)
    if values.figure in _OF_A_HEAD:
        first = next(document.attentions(), None)
        options |= dict(
            looks=values.attention or (first.looks if first else "encoder"),
            layer=values.layer - 1,
            head=None if values.head is None else values.head - 1,
        )
    return file_of(lambda: FIGURES[values.figure](document, **options), kind)
