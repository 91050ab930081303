import dataclasses
import subprocess

import pytest

from experiments.benchmarks import decoding
from experiments.benchmarks.peers.translators import Peer
from experiments.benchmarks.roof import is_plain
from t2t_jax.runs.train import train
from tests.model.configs import small
from tests.runs.configs import smallest


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    train(smallest(place / "cache"), place / "w")
    return place / "w"


@pytest.mark.slow
def test_a_trained_model_is_rated_greedy_and_with_beams(trained):
    measured = list(decoding.measure_run(trained, 20, rounds=2, peers=()))
    found = {each.what: each.values for each in measured}
    assert len(found) == len(measured) == 2 * 14
    for search in ("greedy", "beam of 4"):
        assert min(found[f"{search}, ours, rounded over ours"]) > 0
        others = found[f"{search}, ours, rounded, other outputs than ours"]
        assert others in ([5 * number] for number in range(21))  # of 20
        assert len(found[f"{search}, ours"]) == 2 and min(found[f"{search}, ours"]) > 0
        [first] = found[f"{search}, ours, first pass"]
        # In its time, twice as many tokens could be made: it compiles. At most 3 more than sources.
        assert first * max(found[f"{search}, ours"]) > 2 * 20 * 20
        shares = found[f"{search}, ours over the roof"]
        assert all(0 < share < 1 for share in shares)
        [first] = found[f"{search}, first sentence, ours"]
        half = found[f"{search}, one sentence, 50th percentile, ours"]
        most = found[f"{search}, one sentence, 95th percentile, ours"]
        assert all(0 < one <= other < first for one, other in zip(half, most, strict=True))


@pytest.mark.slow
def test_another_library_searches_alike_and_with_beams_twice(trained, monkeypatch):
    made = []

    def echo(trained, *, as_thorough):
        made.append((trained.sections.decoding.length_penalty_formula, as_thorough))
        return Peer(lambda lines, batch_size, at_once: list(lines))

    monkeypatch.setitem(decoding.PEERS, "echo", echo)
    measured = list(decoding.measure_run(trained, 20, rounds=1, peers=("echo",)))
    found = {each.what: each.values for each in measured}
    assert made == [("power", False), ("power", False), ("power", True)]
    others = [name for name in found if "over echo" in name]
    assert others == [
        f"{search}, {ours} over {echo}"
        for search, echo in (
            ("greedy", "echo"),
            ("beam of 4", "echo"),
            ("beam of 4", "echo as thorough"),
        )
        for ours in ("ours", "ours, rounded")
    ]
    assert all(found[name] < [1.0] for name in others)  # an echo is fast
    assert found["greedy, ours, other outputs than echo"] == [100]


def test_a_peer_takes_the_fastest_way_for_all_lines_and_for_each(monkeypatch):
    def translate(lines, batch_size, at_once):
        return [f"{batch_size}, {at_once}"] * len(lines)

    def timed(way, lines):
        # Many at once and large batches are fast for many lines, one is for one.
        [used, *_] = outputs = way(lines)
        batch_size, at_once = map(int, used.split(", "))
        return (1 / (at_once * batch_size) if len(lines) > 1 else at_once), outputs

    monkeypatch.setattr(decoding, "_timed", timed)
    whole, single = decoding._fastest_ways(Peer(translate, (1, 2)), ["a"] * 20)
    assert whole(["a"]) == ["32, 2"] and single(["a"]) == ["16, 1"]


def test_a_model_of_other_products_has_no_roof():
    others = [{"ensemble_size": 2}, {"family": "recurrent"}, {"num_self_attentions": 2}]
    others += [{"feed_forward": False}, {"d_k": 4}, {"d_v": 4}]
    plain = small(num_heads=4, d_k=3, d_v=3)
    assert is_plain(plain)
    assert not any(is_plain(dataclasses.replace(plain, **other)) for other in others)


def test_a_run_that_is_given_is_not_trained(tmp_path):
    assert decoding.trained_or_kept(str(tmp_path)) == tmp_path


def test_without_one_tiny_is_trained_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("T2T_JAX_CACHE", str(tmp_path))
    asked = []

    def run(command):
        asked.append(command)
        return subprocess.CompletedProcess(command, len(asked) - 1)

    monkeypatch.setattr(decoding.subprocess, "run", run)
    kept = decoding.trained_or_kept("")
    assert kept == tmp_path / "benchmarks" / "tiny"
    assert asked[0][-2:] == ["--config=configs/tiny.py", f"--workdir={kept}"]
    with pytest.raises(ValueError, match="tiny cannot be trained: the reason stands above"):
        decoding.trained_or_kept("")
