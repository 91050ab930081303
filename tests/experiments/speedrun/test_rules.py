"""When a record counts, what a table says about it, and what is refused."""

import json
import shlex

import pytest

from experiments.speedrun.records import DOCUMENT, RECORDS, document
from experiments.speedrun.rules import (
    TEXT,
    Record,
    Seed,
    changes,
    read_record,
    read_records,
    standing,
    why_not,
)

PAIRS = {"train": 29_000}
CONFIG = {"data.source_language": "en", "data.target_language": "de", "training.steps": 8_000}
# Standard error 0.05 about 35.2: t is 4, and p 0.0081 with four degrees of freedom.
BLEU = (35.2, 35.2 - 0.15811388, 35.2 + 0.15811388, 35.2, 35.2)
_EMPTY = "rules\n<!-- made by `python -m experiments.speedrun.records` -->\nold\n"


def seeds(bleu=BLEU, seconds=100.0):
    return [
        Seed(number, each, 130, {"train": seconds - 20, "total": seconds + number})
        for number, each in enumerate(bleu)
    ]


FIRST = Record(
    *("2026-01-03T00:00:00Z", 35.0, "python -m experiments.speedrun --config.a=1", "0" * 40),
    *("Some CPU, 2 cores", {"cpu": "Some CPU", "cores": 2}, {"jax": "0.10.2"}),
    *(TEXT, PAIRS, CONFIG, seeds()),
)
FASTER = FIRST._replace(
    when="2026-02-03T00:00:00Z",
    commit="1" * 40,
    config=CONFIG | {"training.steps": 4_000},
    seeds=seeds(seconds=50.0),
)


def test_five_seeds_that_are_surely_above_the_target_count():
    # With four degrees of freedom P(> t) is 1/2 - 3/8 s (1 - s^2 / 12), s = t / sqrt(1 + t^2 / 4):
    # t = 4 gives s^2 = 16 / 5, hence 1/2 - 11/10 sqrt(1/5).
    assert FIRST.p_value == pytest.approx(1 / 2 - 11 / 10 * 5**-0.5, rel=1e-5)
    assert (FIRST.seconds, FIRST.bleu) == (102.0, pytest.approx(35.2))
    assert why_not(FIRST, None) == why_not(FASTER, FIRST) == ""


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"seeds": seeds()[:4]}, "it has 4 of at least 5 seeds"),
        # t = 2 sqrt(2): p = 0.024, though the mean is a point above.
        (
            {"seeds": seeds((35.0, 36.0, 37.0, 35.5, 36.5))},
            "its mean of 36.00 BLEU is not above 35.0 with p < 0.01: p = 0.024",
        ),
        ({"target": 41.0}, "its mean of 35.20 BLEU is not above 41.0 with p < 0.01: p = 1"),
        ({"seeds": seeds([36.0] * 5)}, "with p < 0.01: no test can be made"),
        ({"commit": "0" * 40 + "-dirty"}, f"its code is of no commit alone: {'0' * 40}-dirty"),
        ({"config": CONFIG | {"data.source_language": "fr"}}, "its corpus is fr-de, not en-de"),
        ({"text": TEXT | {"test.en": "3c"}}, "its test.en is not that of Multi30k with test2016"),
        ({"text": TEXT | {"corpus 2/train.en": "3c"}}, "its corpus 2/train.en is not that of"),
        (
            {"seeds": seeds()},
            "it took 102.0 s, and the record of 2026-01-03T00:00:00Z stands at 10",
        ),
    ],
)
def test_why_a_record_does_not_count_is_one_sentence(changed, why):
    found = why_not(FASTER._replace(**changed), FIRST)
    assert why in found and "\n" not in found


def test_what_changed_are_the_keys_with_both_values():
    new = FASTER._replace(config=FASTER.config | {"model.new": True})
    later = new._replace(config=new.config | {"model.ensemble_size": 1})  # as it always was
    for each in (new, later):
        assert changes(each, FIRST) == {"training.steps": [8_000, 4_000], "model.new": [None, True]}
    assert changes(new, None) == {}


def test_a_record_is_read_as_it_was_written(tmp_path):
    FASTER.write(tmp_path / "b.json", FIRST)
    assert read_record(tmp_path / "b.json") == FASTER
    derived = json.loads((tmp_path / "b.json").read_text())["derived"]
    assert derived["counts"] and derived["changes"] == {"training.steps": [8_000, 4_000]}
    FIRST._replace(seeds=seeds()[:2]).write(tmp_path / "c.json", None)
    derived = json.loads((tmp_path / "c.json").read_text())["derived"]
    assert not derived["counts"] and derived["why_not"] == "it has 2 of at least 5 seeds"


def test_a_record_is_beside_those_of_its_target_and_its_hardware_alone(tmp_path):
    assert read_records(tmp_path / "none") == []
    later = "2026-03-03T00:00:00Z"
    elsewhere = FIRST._replace(when=later, hardware="1 x Some GPU")  # and slower
    for name, record in (("z", FIRST), ("y", FASTER), ("x", elsewhere)):
        record.write(tmp_path / f"{name}.json", None)
    assert read_records(tmp_path) == [FIRST, FASTER, elsewhere]
    FIRST._replace(when=later).write(tmp_path / "slower.json", None)
    with pytest.raises(
        ValueError, match=r"slower.json does not count: it took 102.0 s, and the re"
    ):
        read_records(tmp_path)


def test_a_config_as_it_is_heads_its_table_and_competes_with_nothing(tmp_path):
    command = "speedrun --config=configs/multi30k.py --config.data.directory=DIR"
    slow = FASTER._replace(when="2026-04-03T00:00:00Z", command=command, seeds=seeds(seconds=400.0))
    assert slow.as_it_is and slow._replace(command=f"{command} --config.seed=3").as_it_is
    others = "--config.training.steps=3", "--config=mine.py"
    assert not any(slow._replace(command=f"speedrun {other}").as_it_is for other in others)
    for name, record in (("a", FIRST), ("b", slow), ("c", FASTER)):
        record.write(tmp_path / f"{name}.json", None)
    kept = read_records(tmp_path)
    assert kept == [slow, FIRST, FASTER]
    assert standing(kept, slow) == FASTER and why_not(slow, FASTER) == why_not(FIRST, slow) == ""
    assert why_not(FIRST, slow._replace(seeds=seeds(seconds=5.0))) == ""  # the config was improved
    assert "its train.en is not" in why_not(slow._replace(text={}), FASTER)
    rows = [line.split(" | ") for line in document(_EMPTY, kept).splitlines() if "seeds" in line]
    assert [(row[0], row[3]) for row in rows] == [
        ("| 402.0", "the config as it is"),
        ("| 102.0", "`training.steps=8000` (4000)"),
        ("| 52.0", "`training.steps=4000` (8000)"),
    ]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"format": 2}, "is not a record of a speedrun of format 1"),
        ({"seeds": []}, "is damaged: "),
        ({"seeds": [{"seed": 0}]}, "is damaged: .*missing 3 required"),
        ({"derived": {"seconds": 1.0, "bleu": 99.0}}, "seconds is not the mean of the seeds"),
        ({"derived": {}}, "is damaged: it lacks 'seconds'"),
        ({"target": 20.0}, r"target=20.0 is none of \(35.0, 41.0\)"),
        ({"commit": None}, "commit, hardware must be texts"),
        ({"command": "a 'b"}, "is damaged: No closing quotation"),
        ({"config": []}, "config, text objects"),
        ({"text": []}, "config, text objects"),
    ],
)
def test_a_damaged_record_is_refused_by_its_name(tmp_path, damage, said):
    path = tmp_path / "r.json"
    FIRST.write(path, None)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(ValueError, match=f"r.json {said if 'is' in said[:3] else '.*' + said}"):
        read_records(tmp_path)


def test_the_same_seed_twice_is_refused(tmp_path):
    FIRST._replace(seeds=[*seeds()[:4], seeds()[3]]).write(tmp_path / "r.json", None)
    with pytest.raises(ValueError, match="r.json is damaged: a seed is there twice"):
        read_records(tmp_path)


def test_the_committed_page_is_what_the_command_makes():
    text = DOCUMENT.read_text("utf-8")
    assert document(text, read_records(RECORDS)) == text


def test_a_page_without_records_and_one_without_a_place():
    text = document(_EMPTY, [])
    assert text.startswith("rules\n") and text.endswith("-->\n\nNo record yet.\n")
    assert document(text, []) == text
    with pytest.raises(ValueError, match="SPEEDRUN.md has no line <!-- made by"):
        document("rules", [])


def test_each_target_and_hardware_has_a_table_of_what_beat_what():
    newer = FASTER._replace(commit="2" * 40, seeds=seeds(seconds=40.0))
    gpu = FIRST._replace(hardware="1 x Some GPU", seeds=seeds(seconds=30.0))
    text = document(_EMPTY, [FIRST, gpu, FASTER, newer])
    _, first, second = text.split("\n## ")
    assert first.splitlines() == [
        "35.0 BLEU: 1 x Some GPU",
        "",
        "| seconds | of them training | BLEU | what it changed | date, commit |",
        "|--:|--:|--|--|--|",
        "| 32.0 | 10.0 | 35.20, 5 seeds, p = 0.008 | the first | 2026-01-03, 0000000 |",
        "",
        "The last of them, at 0000000 (later config files may differ):",
        "",
        "    python -m experiments.speedrun --config.a=1",
    ]
    assert second.splitlines()[4:-4] == [
        "| 102.0 | 80.0 | 35.20, 5 seeds, p = 0.008 | the first | 2026-01-03, 0000000 |",
        "| 52.0 | 30.0 | 35.20, 5 seeds, p = 0.008 | "
        "`training.steps=4000` (8000) | 2026-02-03, 1111111 |",
        "| 42.0 | 20.0 | 35.20, 5 seeds, p = 0.008 | the code alone | 2026-02-03, 2222222 |",
    ]


def test_a_long_command_is_broken_between_its_words_and_stays_the_same():
    flags = [f"--config.training.peak_learning_rate={rate}" for rate in range(9)]
    command = shlex.join(["python", "-m", "experiments.speedrun", *flags, "--workdir=a b"])
    text = document(_EMPTY, [FIRST._replace(command=command)])
    block = [line for line in text.splitlines() if line.startswith("    ")]
    assert len(block) > 2 and max(map(len, block)) <= 110
    typed = "\n".join(block).replace("\\\n", "")  # as a shell reads it
    assert shlex.split(typed) == shlex.split(command)
