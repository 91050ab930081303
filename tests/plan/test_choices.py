"""Layouts and topologies side by side."""

import pytest

from t2t_jax.plan.choices import best_layout, growth, growth_text, layouts
from t2t_jax.plan.hardware import topology
from t2t_jax.plan.plan import plan
from t2t_jax.plan.prices import read_prices
from t2t_jax.plan.report import as_json, growth_table, table, write_figure
from tests.plan.stand_in import GIB, StandIn, sections, settings

PRICES = read_prices(may_be_old=True)


class NeedsFsdp(StandIn):
    """A state that fits a chip only in parts."""

    def __call__(self, program):
        self.state = 40 * GIB // program.sections.devices.fsdp
        return super().__call__(program)


@pytest.mark.parametrize("name", ["v5e-1", "v5e-4", "v5e-8", "v4-8"])
def test_a_layout_has_all_chips_at_work(name):
    chips = topology(name).num_chips
    for layout in layouts(topology(name)):
        assert layout["data"] * layout["fsdp"] * layout["tensor"] == chips


def test_the_fastest_that_fits_comes_first_and_what_does_not_fit_last(tmp_path):
    found = best_layout(sections(), topology("v5e-8"), settings(tmp_path, NeedsFsdp()))
    assert found[0].fits and found[0].layout == "1 x 8 x 1"
    assert {each.layout for each in found if not each.fits} == {"8 x 1 x 1", "4 x 1 x 2"}
    assert not found[-1].fits and not found[-2].fits


def test_a_fused_kernel_is_not_cut_over_heads_and_that_is_told(tmp_path):
    run = sections(**{"model.attention_kernel": "fused", "model.dtype": "bfloat16"})
    found = best_layout(run, topology("v5e-8"), settings(tmp_path))
    assert {each.layout for each in found} == {"8 x 1 x 1", "1 x 8 x 1", "2 x 4 x 1"}
    assert "devices.tensor=2 was not tried" in table([("", each) for each in found], PRICES)


def grown(tmp_path, *names):
    settings_ = settings(tmp_path)
    return growth([plan(sections(), topology(name), settings_) for name in names])


def test_efficiency_is_against_the_chip_seconds_of_the_smallest(tmp_path):
    [found] = grown(tmp_path, "v5e-32", "v5e-1", "v5e-8")
    assert [each.plan.topology.num_chips for each in found] == [1, 8, 32]
    assert found[0].efficiency == 1
    one, eight = (each.plan.step_seconds.middle for each in found[:2])
    assert found[1].efficiency == pytest.approx(one / eight / 8)


def test_chips_are_compared_with_their_own_kind(tmp_path):
    found = grown(tmp_path, "v5e-8", "v4-8", "v5e-16")
    assert [[each.plan.topology.name for each in of_kind] for of_kind in found] == [
        *(["v5e-8", "v5e-16"], ["v4-8"])
    ]
    assert [of_kind[0].efficiency for of_kind in found] == [1, 1]
    write_figure(found, PRICES, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000


def test_where_it_stops_to_scale_is_told(tmp_path):
    [found] = grown(tmp_path, "v5e-1", "v5e-8", "v5e-256")
    few = next(each for each in found if each.efficiency < 0.5)
    assert f"stop scaling at {few.plan.topology.name}" in growth_text(found, (25_000, 25_000))
    assert "scale up to v5e-1" in growth_text(found[:1], (25_000, 25_000))


def test_plans_are_printed_written_and_drawn(tmp_path):
    [of_kind] = found = grown(tmp_path, "v5e-1", "v5e-8")
    printed = table([("base", each.plan) for each in of_kind], PRICES)
    assert "v5e-8" in printed and "8 x 1 x 1" in printed and "parameters" in printed
    assert "100%" in growth_table(found, PRICES)
    write_figure(found, PRICES, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    values = as_json(of_kind[1].plan, PRICES)
    assert values["chips"] == 8 and values["dollars"]["on_demand"] > 0


def test_what_does_not_fit_is_a_line_with_its_advice_below(tmp_path):
    bad = plan(sections(), topology("v5e-8"), settings(tmp_path, StandIn(state=20 * GIB)))
    printed = table([("big", bad)], PRICES)
    assert "does not fit" in printed and "big on v5e-8: does not fit: parameters" in printed
    assert as_json(bad, PRICES)["hours"] == [None, None]
    assert growth([bad]) == []
