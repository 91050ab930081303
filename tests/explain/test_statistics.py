"""What heads do in numbers, on matrices with known ones."""

import csv
import io
import math

import numpy as np

from t2t_jax.explain.statistics import HeadStatistics, csv_text, head_statistics
from tests.explain.models import document


def _with_weights(weights):
    found = document()
    encoder = found.stack("encoder")
    attention = encoder.attentions[0]._replace(weights=np.asarray(weights, np.float32))
    stacks = [encoder._replace(attentions=[attention])]
    return head_statistics(found._replace(stacks=stacks))


def test_a_head_that_looks_back_and_one_that_looks_everywhere():
    back = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    one, other = _with_weights([back, np.full((4, 4), 0.25)])
    assert one.previous == 0.75 and one.same == 0.25 and one.next == 0
    assert one.entropy == 0 and one.largest_weight == 1 and one.distance == 0.75
    assert one.first == 0.5 and one.last == 0
    np.testing.assert_allclose(other.entropy, math.log(4), rtol=1e-6)
    assert other.distance == 1.25 and other.previous == other.next == 0.1875 and other.same == 0.25


def test_every_head_of_the_model_has_a_row():
    rows = list(csv.DictReader(io.StringIO(csv_text(head_statistics(document())))))
    assert tuple(rows[0]) == HeadStatistics._fields
    names = [(row["attention"], row["layer"], row["head"]) for row in rows]
    assert names == [
        (looks, layer, head)
        for stack in (["encoder"], ["decoder", "cross"])
        for layer in "12"
        for looks in stack
        for head in "12"
    ]
    assert all((row["distance"] == "") == (row["attention"] == "cross") for row in rows)
