"""The page is one file that loads no other, and a user's text in it stays text."""

import base64
import hashlib
import html.parser
import json
import re

import numpy as np
import pytest

from t2t_jax.explain.page import page
from tests.explain.models import KINDS, document, large_document

_EVIL = "</script><script>alert(1)</script><!-- & <img src=x onerror=alert(2)>"


class _Elements(html.parser.HTMLParser):
    """Elements with their attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ""])

    def handle_data(self, data):
        if self.found:
            self.found[-1][2] += data

    def handle_endtag(self, tag):
        self.found.append(["end", {}, ""])

    def of(self, tag):
        return [each for each in self.found if each[0] == tag]


def data_of(text):
    """What the page's script reads."""
    elements = _Elements(text).of("script")
    (data,) = (each[2] for each in elements if each[1].get("type") == "application/json")
    return json.loads(data)


@pytest.mark.parametrize("kind", KINDS)
def test_it_names_nothing_outside_itself(kind):
    text = page([[document(kind)]])
    assert not re.search(r"(src|href)=\"(?!#)", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    elements = _Elements(text)
    for tag, attributes, _ in elements.found:
        assert tag not in ("link", "iframe", "img", "object", "base", "form")
        assert not any(name.startswith("on") or name == "style" for name in attributes)


def test_its_policy_allows_its_own_script_and_style_alone():
    elements = _Elements(page([[document()]]))
    (policy,) = (
        attributes["content"]
        for _, attributes, _ in elements.of("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["base-uri"] == "'none'"
    assert "unsafe" not in policy
    scripts = [each[2] for each in elements.of("script") if "type" not in each[1]]
    styles = [each[2] for each in elements.of("style")]
    for texts, rule in ((scripts, "script-src"), (styles, "style-src")):
        (content,) = texts
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_what_a_user_wrote_stays_text():
    found = document()._replace(text=_EVIL, label=_EVIL, output=_EVIL)
    text = page([[found]])
    assert len(_Elements(text).of("script")) == 2 and not _Elements(text).of("img")
    assert "alert(1)</script>" not in text and "<!--" not in text
    assert data_of(text)["sentences"][0][0]["text"] == _EVIL


def test_its_numbers_are_those_that_were_captured():
    shown = data_of(page([[document()]]))["sentences"][0][0]
    for stack, its in zip(document().stacks, shown["stacks"], strict=True):
        for attention, packed in zip(stack.attentions, its["attentions"], strict=True):
            for name in ("weights", "scores"):
                numbers = np.frombuffer(base64.b64decode(packed[name]["float32"]), "<f4")
                expected = getattr(attention, name)
                np.testing.assert_array_equal(numbers.reshape(packed[name]["shape"]), expected)
            numbers = np.frombuffer(base64.b64decode(packed["query"]["float16"]), "<f2")
            np.testing.assert_allclose(numbers, attention.query.ravel(), rtol=1e-3, atol=1e-6)


def test_thirty_tokens_and_six_layers_of_the_papers_model_take_less_than_five_megabytes():
    size = len(page([[large_document(num_layers=6, num_tokens=30)]]).encode())
    assert size < 5e6
    print(f"{size / 1e6:.2f} MB")


def test_it_opens_in_the_language_that_was_asked_for():
    text = page([[document()]], "de")
    assert '<html lang="de">' in text and "Ein Satz im Inneren des Modells" in text
    assert data_of(text)["language"] == "de"
