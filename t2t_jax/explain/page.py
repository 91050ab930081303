"""Documents -> one HTML page that needs and loads no other file.

A Content-Security-Policy allows its script and style by their hashes and forbids all else; user
input is only in the data, which is text.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from t2t_jax.explain.document import Document, plain
from t2t_jax.explain.words import LANGUAGES, STAGES, labels

# In the order in which they use each other.
_SCRIPTS = ("arrays", "elements", "colours", "heat_map", "lines", "stages", "main")
# Shown as colours, and with three digits where a reader points: half the bytes are enough.
_COLOURED = {"query", "key", "embedding", "embedded", "layouts", "vectors"}
# Not drawn by any stage.
_UNSEEN = {"embedded"}


def page(sentences: Sequence[Sequence[Document]], language: str = "en") -> str:
    """The page, for a browser to open from disk.

    Args:
      sentences: for each sentence, the documents of one model, or of two side by side.
      language: "en" or "de", the initial one; a reader can switch.
    """
    data = {
        "language": language,
        "words": {each: labels(each) for each in LANGUAGES},
        "stages": [stage._asdict() for stage in STAGES],
        "sentences": [[_packed(plain(each)) for each in documents] for documents in sentences],
    }
    # No character with a meaning in HTML is left.
    signs = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
    data_text = json.dumps(
        data, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).translate(signs)
    words = labels(language)
    return _head(language) + "\n".join(
        [
            "<body>",
            "<main>",
            f'<h1 id="title">{escape(words["title"])}</h1>',
            '<div id="about"></div>',
            '<nav id="contents"></nav>',
            '<div id="bar"></div>',
            '<div id="stages"></div>',
            f"<noscript><p>{escape(words['no_script'])}</p></noscript>",
            "</main>",
            f'<script type="application/json" id="data">{data_text}</script>',
            f"<script>{_script()}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def is_page(path: Path) -> bool:
    """Whether a file begins like a `page`: then nothing in it can run but the script of a page.

    This holds whoever wrote it: the policy comes before any content of its own.
    """
    heads = [_head(language).encode() for language in LANGUAGES]
    with path.open("rb") as file:
        begins = file.read(max(map(len, heads)))
    return any(begins.startswith(head) for head in heads)


def _head(language: str) -> str:
    """Everything before the body, the same for all pages in a language."""
    style = _file("style.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(_script())}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="{language}">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(labels(language)['title'])}</title>",
            f"<style>{style}</style>",
            "</head>",
            "",
        ]
    )


def _script() -> str:
    return '"use strict";\n' + "\n".join(_file(f"{name}.js") for name in _SCRIPTS)


def _packed(value: Any, name: str = "") -> Any:
    """Values for JSON: arrays as base64 of float32, or of float16 if shown only as colours."""
    match value:
        case dict():
            inner = {key: key if name != "layouts" else name for key in value}
            return {
                key: _packed(each, inner[key]) for key, each in value.items() if key not in _UNSEEN
            }
        case list():
            return [_packed(each, name) for each in value]
        case np.ndarray():
            kind = "float16" if name in _COLOURED else "float32"
            numbers = np.ascontiguousarray(value, np.dtype(kind).newbyteorder("<"))
            text = base64.b64encode(numbers.tobytes()).decode()
            return {"shape": list(value.shape), kind: text}
        case _:
            return value


def _file(name: str) -> str:
    return (files("t2t_jax.explain") / "page_files" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
