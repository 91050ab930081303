"""Table 3: exactly the paper's rows at the paper's base, honest ones elsewhere."""

import pytest

from configs import base, big, classifier, language_model, multi30k, tiny
from experiments.tables import paper_base, quickstart, table3
from experiments.tables.ablation import check_row, flat, num_params

CONFIGS = {module.__name__: module for module in (base, big, multi30k, tiny)}

# What else the paper says of the base model's training and search (sections 5 and 6.1).
PAPER_RECIPE = {
    "data.name": "wmt14_translate/de-en",
    "data.dev": "validation",  # newstest2013
    "data.vocabulary_kind": "bpe",
    "data.vocabulary_size": 37_000,
    "data.source_tokens_per_batch": 25_000,
    "data.target_tokens_per_batch": 25_000,
    "model.vocabulary_rows": 40_960,
    "model.attention_dropout_rate": 0.0,
    "model.feed_forward_dropout_rate": 0.0,
    "training.steps": 100_000,
    "training.schedule": "paper",
    "training.warmup_steps": 4_000,
    "training.learning_rate_scale": 1.0,
    "training.optimizer": "adam",
    "training.weight_decay": 0.0,
    "training.gradient_clip_norm": 0.0,
    "training.adam_beta1": 0.9,
    "training.adam_beta2": 0.98,
    "training.adam_epsilon": 1e-9,
    "decoding.beam_size": 4,
    "decoding.length_penalty": 0.6,
    "decoding.max_extra_tokens": 50,
    "decoding.average_checkpoints": 1,
}

# The columns of the paper's table, row by row, blanks filled from its base.
# name: N, d_model, d_ff, h, d_k, d_v, P_drop, eps_ls, steps, PPL, BLEU, params
# fmt: off
PAPER = {
    "base":            (6,  512, 2048,  8,  64,  64, 0.1, 0.1, 100_000, 4.92, 25.8, 65),
    "A.h=1":           (6,  512, 2048,  1, 512, 512, 0.1, 0.1, 100_000, 5.29, 24.9, None),
    "A.h=4":           (6,  512, 2048,  4, 128, 128, 0.1, 0.1, 100_000, 5.00, 25.5, None),
    "A.h=16":          (6,  512, 2048, 16,  32,  32, 0.1, 0.1, 100_000, 4.91, 25.8, None),
    "A.h=32":          (6,  512, 2048, 32,  16,  16, 0.1, 0.1, 100_000, 5.01, 25.4, None),
    "B.d_k=16":        (6,  512, 2048,  8,  16,  64, 0.1, 0.1, 100_000, 5.16, 25.1, 58),
    "B.d_k=32":        (6,  512, 2048,  8,  32,  64, 0.1, 0.1, 100_000, 5.01, 25.4, 60),
    "C.N=2":           (2,  512, 2048,  8,  64,  64, 0.1, 0.1, 100_000, 6.11, 23.7, 36),
    "C.N=4":           (4,  512, 2048,  8,  64,  64, 0.1, 0.1, 100_000, 5.19, 25.3, 50),
    "C.N=8":           (8,  512, 2048,  8,  64,  64, 0.1, 0.1, 100_000, 4.88, 25.5, 80),
    "C.d_model=256":   (6,  256, 2048,  8,  32,  32, 0.1, 0.1, 100_000, 5.75, 24.5, 28),
    "C.d_model=1024":  (6, 1024, 2048,  8, 128, 128, 0.1, 0.1, 100_000, 4.66, 26.0, 168),
    "C.d_ff=1024":     (6,  512, 1024,  8,  64,  64, 0.1, 0.1, 100_000, 5.12, 25.4, 53),
    "C.d_ff=4096":     (6,  512, 4096,  8,  64,  64, 0.1, 0.1, 100_000, 4.75, 26.2, 90),
    "D.dropout=0":     (6,  512, 2048,  8,  64,  64, 0.0, 0.1, 100_000, 5.77, 24.6, None),
    "D.dropout=0.2":   (6,  512, 2048,  8,  64,  64, 0.2, 0.1, 100_000, 4.95, 25.5, None),
    "D.smoothing=0":   (6,  512, 2048,  8,  64,  64, 0.1, 0.0, 100_000, 4.67, 25.3, None),
    "D.smoothing=0.2": (6,  512, 2048,  8,  64,  64, 0.1, 0.2, 100_000, 5.47, 25.7, None),
    "E.learned":       (6,  512, 2048,  8,  64,  64, 0.1, 0.1, 100_000, 4.92, 25.7, None),
    "big":             (6, 1024, 4096, 16,  64,  64, 0.3, 0.1, 300_000, 4.33, 26.4, 213),
}
# fmt: on
PAPER_ROWS = table3.TABLE.rows(base.get_config())


def test_the_papers_base_has_the_papers_rows_in_its_order():
    assert [row.name for row in PAPER_ROWS.rows] == list(PAPER)
    assert PAPER_ROWS.left_out == []


@pytest.mark.parametrize("row", PAPER_ROWS.rows, ids=lambda row: row.name)
def test_a_row_at_the_papers_base_is_the_papers(row):
    config = row.config(base.get_config())
    model, training = config.model, config.training
    assert model.num_encoder_layers == model.num_decoder_layers
    ours = (
        model.num_encoder_layers,
        model.d_model,
        model.d_ff,
        model.num_heads,
        model.d_k,
        model.d_v,
        model.dropout_rate,
        training.label_smoothing,
        training.steps,
        row.paper.perplexity,
        row.paper.bleu,
        row.paper.params,
    )
    assert ours == PAPER[row.name]
    assert model.positions == ("learned" if row.name == "E.learned" else "sinusoidal")


@pytest.mark.parametrize(
    "row",
    [row for row in PAPER_ROWS.rows if row.paper.params and row.name != "big"],
    ids=lambda row: row.name,
)
def test_parameters_are_the_ten_the_paper_prints(row):
    assert round(num_params(row.config(base.get_config())) / 1e6) == row.paper.params


def test_ten_ablation_rows_have_printed_parameters():
    printed = [row.paper.params for row in PAPER_ROWS.rows if row.paper.params]
    assert printed == [65, 58, 60, 36, 50, 80, 28, 168, 53, 90, 213]


def test_big_has_more_parameters_than_the_paper_prints():
    # The paper's 213 needs 35.3k to 36.3k embedding rows where its other ten entries need 40,960.
    row = PAPER_ROWS.named("big")
    assert num_params(row.config(base.get_config())) / 1e6 == pytest.approx(218.3, abs=0.05)


def test_the_row_big_is_the_config_big():
    assert PAPER_ROWS.named("big").config(base.get_config()) == big.get_config()


def test_only_the_papers_base_has_the_papers_scores():
    for config in (big, multi30k, tiny):
        assert all(row.paper is None for row in table3.TABLE.rows(config.get_config()).rows)
    reversed_direction = base.get_config()
    reversed_direction.data.source_language = "de"
    reversed_direction.data.target_language = "en"
    assert all(row.paper is None for row in table3.TABLE.rows(reversed_direction).rows)


def test_dropout_where_the_base_has_none_is_not_held_against_the_papers_twice_as_much():
    papers = {row.name: row.paper for row in table3.TABLE.make_rows(tiny.get_config())}
    assert papers["D.dropout=0.1"] is None and papers["C.N=1"] is not None
    papers = {row.name: row.paper for row in table3.TABLE.make_rows(multi30k.get_config())}
    assert papers["D.dropout=0.4"] == PAPER_ROWS.named("D.dropout=0.2").paper


def test_every_key_of_a_model_sets_it_apart_from_the_papers_unless_it_is_named():
    alike = set()
    for key in [key for key in flat(base.get_config()) if key.startswith("model.")]:
        other = base.get_config()
        with other.ignore_type():
            other.update_from_flattened_dict({key: "another"})
        if table3.TABLE.has_paper_base(other):
            alike.add(key)
    assert alike == paper_base.OF_OTHER_MODELS | paper_base._UNSAID


def test_base_is_the_papers_model_and_recipe():
    ours = flat(base.get_config())
    for key, value in {**paper_base.PAPER_BASE, **PAPER_RECIPE}.items():
        assert ours[key] == value, key


def test_heads_keep_computation_constant_at_any_base():
    for config in (module.get_config() for module in CONFIGS.values()):
        for row in table3.TABLE.rows(config).select("A.*").rows:
            model = row.config(config).model
            assert model.num_heads * model.d_k == config.model.num_heads * config.model.d_k
            assert model.num_heads * model.d_v == config.model.num_heads * config.model.d_v


def test_a_small_base_keeps_at_least_one_head_and_one_layer():
    rows = table3.TABLE.rows(tiny.get_config())
    one_head = rows.named("A.h=1")
    assert one_head.changes["model.num_heads"] == 1
    assert "at least 1" in one_head.note
    assert all(row.changes["model.num_encoder_layers"] >= 1 for row in rows.select("C.N=*").rows)


def test_two_layers_have_room_for_two_other_depths_and_say_so():
    config = tiny.get_config()
    config.model.num_encoder_layers = config.model.num_decoder_layers = 2
    rows = table3.TABLE.rows(config)
    assert [row.name for row in rows.select("C.N=*").rows] == ["C.N=1", "C.N=3"]
    assert [reason for name, reason in rows.left_out if name == "C.N=1"] == [
        "two thirds of 2+2 layers, rounded: at this base it is that row again"
    ]


def test_shares_that_are_not_whole_are_left_out_with_the_reason():
    config = tiny.get_config()
    config.model.update(num_heads=3, d_k=5, d_v=5, d_model=15, d_ff=7)
    left_out = dict(table3.TABLE.rows(config).left_out)
    assert "half of 3 heads would be 1.5" in left_out["A.h=1.5"]
    assert "d_k of 6 heads would be 2.5" in left_out["A.h=6"]
    assert "a quarter of d_k=5 would be 1.25" in left_out["B.d_k=1.25"]
    assert "half of d_model=15 would be 7.5" in left_out["C.d_model=7.5"]
    assert "half of d_ff=7 would be 3.5" in left_out["C.d_ff=3.5"]


def test_a_base_without_dropout_is_compared_with_the_papers_rate():
    config = tiny.get_config()
    config.model.dropout_rate = 0.0
    rows = table3.TABLE.rows(config)
    names = [row.name for row in rows.rows]
    assert "D.dropout=0.1" in names
    assert "D.dropout=0" not in names
    assert "same as base" in dict(rows.left_out)["D.dropout=0"]


def test_three_times_a_high_dropout_is_left_out():
    config = tiny.get_config()
    config.model.dropout_rate = 0.3
    assert "above 0.8" in dict(table3.TABLE.rows(config).left_out)["big"]


def test_the_quickstart_has_five_rows_at_tiny():
    rows = quickstart.TABLE.rows(tiny.get_config()).rows
    names = ["base", "one_head", "one_layer", "learned_positions", "no_positions"]
    assert [row.name for row in rows] == names


@pytest.mark.parametrize("config", [language_model, classifier], ids=lambda config: config.__name__)
@pytest.mark.parametrize("table", [table3.TABLE, quickstart.TABLE], ids=lambda table: table.name)
def test_a_model_of_one_stack_has_rows_of_its_depth(table, config):
    one_stack = config.get_config()
    rows = table.rows(one_stack).rows
    for row in rows:
        check_row(row, one_stack)
    [key] = {key for row in rows for key in row.changes if key.endswith("_layers")}
    assert key == f"model.num_{'decoder' if config is language_model else 'encoder'}_layers"


@pytest.mark.parametrize(
    ("key", "value"),
    [("training.label_smoothing", 0.0), ("data.source_language", "fr")],
)
def test_the_papers_scores_need_all_that_its_base_says(key, value):
    other = base.get_config()
    other.update_from_flattened_dict({key: value})
    assert not table3.TABLE.has_paper_base(other)
