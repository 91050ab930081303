"""Tests the rule that reports use, on tables of pure chance and of known differences.

    python -m experiments.report.simulation
    python -m experiments.report.simulation --tables=1000 --seeds=3,5 --rows=10 --candidates
    python -m experiments.report.simulation --seeds=3,5,10 --rows=5,10,20 --related

Prints Markdown tables. False alarms: the share of tables without any real difference that still
have a `*`, with its 95 % interval; it must be at most 5 %, also if one row, half of the rows or
base are 2 or 4 times as noisy as the others, or one row 50 times. Power: the share of real
differences that get a `*`, if half of the rows are that many standard deviations (of a row's seeds)
from base; "wild 4": of 4 deviations beside a row 50 times as noisy. --candidates does the same for
rules that were considered but not chosen, and for that of rows with other seeds than base.
--related shows where the rule fails: false alarms if some rows share noise that base lacks.
"""

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import app, flags

from experiments.report import against_base
from experiments.report.effects import SIGNIFICANT
from t2t_jax.cli.command import parse_flags

# Which rows are noisier than the others, and by what factor.
NOISE = {
    "equal": ("", 1.0),
    "one row x2": ("one", 2.0),
    "one row x4": ("one", 4.0),
    "one row x50": ("one", 50.0),
    "half x2": ("half", 2.0),
    "half x4": ("half", 4.0),
    "base x2": ("base", 2.0),
    "base x4": ("base", 4.0),
}
DIFFERENCES = (0.5, 1.0, 2.0, 4.0)
# What two fifths of the rows share at a seed, and base lacks, in deviations of a row's own noise.
RELATED = (0.0, 0.5, 1.0, 2.0, 4.0)
# Values of tables, rows and seeds, base first -> whether each row gets a star.
Rule = Callable[[np.ndarray], np.ndarray]


def tables(
    random: np.random.Generator,
    shape: tuple[int, int, int],
    noise: str = "equal",
    *,
    difference: float = 0.0,
    of_seeds: float = 1.0,
    of_related: float = 0.0,
) -> np.ndarray:
    """Tables x base and rows x seeds; the first half of the rows has a `difference` to base.

    Args:
      shape: how many tables, rows without base, and seeds.
      noise: one of NOISE.
      of_seeds: the standard deviation of what all rows share at a seed.
      of_related: that of what the last two fifths of the rows share besides.
    """
    num_tables, num_rows, num_seeds = shape
    who, times = NOISE[noise]
    which = {"": slice(0), "one": slice(1, 2), "half": slice(1, 1 + num_rows // 2), "base": 0}[who]
    deviations = np.ones((num_rows + 1, 1))
    deviations[which] = times
    values = deviations * random.normal(size=(num_tables, num_rows + 1, num_seeds))
    values += of_seeds * random.normal(size=(num_tables, 1, num_seeds))
    values[:, 1 : 1 + num_rows // 2] += difference
    if of_related:
        shared = of_related * random.normal(size=(num_tables, 1, num_seeds))
        values[:, 1 + num_rows - 2 * num_rows // 5 :] += shared
    return values


def of_reports(values: np.ndarray) -> np.ndarray:
    """The rule that reports use."""
    return _stars(against_base.contrasts(values))


def welch_holm(values: np.ndarray) -> np.ndarray:
    """Welch's test of each row, the p values corrected by Holm: the former rule."""
    return _holm(_welch(values))


def welch_bonferroni(values: np.ndarray) -> np.ndarray:
    """Welch's test of each row at its share of the level: for rows whose seeds are not base's."""
    return _welch(values) * (values.shape[1] - 1) < SIGNIFICANT


def paired_holm(values: np.ndarray) -> np.ndarray:
    """Student's test of each row's differences to base, corrected by Holm."""
    from scipy import special

    paired = values[:, 1:] - values[:, :1]
    errors = np.sqrt(paired.var(2, ddof=1) / values.shape[2])
    return _holm(2 * special.stdtr(values.shape[2] - 1, -abs(paired.mean(2)) / errors))


def dunnett(values: np.ndarray) -> np.ndarray:
    """Dunnett's test with one variance for all: that of the residuals of rows and seeds."""
    return _dunnett(values, lambda pooled, own: pooled)


def dunnett_larger(values: np.ndarray) -> np.ndarray:
    """Dunnett's test with the larger of the common variance and that of the row's differences."""
    return _dunnett(values, np.maximum)


def dunnett_without_wild(values: np.ndarray) -> np.ndarray:
    """Dunnett's test for rows with a variance like the others' by an F test; else the row's own.

    The wildest row leaves, at the 5 % level corrected for the rows, until none is wild. If base
    leaves, all rows are tested by their own differences, at their share of the level.
    """
    from scipy import special

    num_tables, num_all, num_seeds = values.shape
    degrees = num_seeds - 1
    stays = np.ones((num_tables, num_all), bool)
    for _ in range(num_all - 2):
        squares, count = _squares(values, stays), stays.sum(1)
        own = squares.max(1) * count / (count - 1)
        others = np.maximum(squares.sum(1) - own, 1e-300) / np.maximum(count - 2, 1)
        p_value = count * special.fdtrc(degrees, (count - 2) * degrees, own / others)
        leaves = (p_value < SIGNIFICANT) & (count > 2)
        if not leaves.any():
            break
        stays[np.flatnonzero(leaves), squares.argmax(1)[leaves]] = False
    count = stays.sum(1)
    pooled = _squares(values, stays).sum(1) / ((count - 1) * degrees)
    ratio = np.array([dunnett_ratio(n - 1, (n - 1) * degrees) for n in range(2, num_all + 1)])
    paired = values[:, 1:] - values[:, :1]
    its_own = special.stdtrit(degrees, 1 - SIGNIFICANT / (num_all - 1) / 2)
    errors = np.sqrt(paired.var(2, ddof=1) / num_seeds) * its_own
    common = (ratio[count - 2] * np.sqrt(2 * pooled / num_seeds))[:, None]
    return abs(paired.mean(2)) > np.where(stays[:, 1:] & stays[:, :1], common, errors)


def moderated_differences(values: np.ndarray) -> np.ndarray:
    """Each row's differences to base with moderated variances (Smyth 2004), Sidak's correction."""
    from scipy import special

    paired = values[:, 1:] - values[:, :1]
    num_rows, degrees = paired.shape[1], paired.shape[2] - 1
    variances, prior_degrees = against_base.moderated(paired.var(2, ddof=1), degrees)
    all_degrees = np.minimum(prior_degrees + degrees, num_rows * degrees)
    level = 1 - (1 - SIGNIFICANT) ** (1 / num_rows)
    limits = special.stdtrit(all_degrees, 1 - level / 2) * np.sqrt(variances / paired.shape[2])
    return abs(paired.mean(2)) > limits


def base_apart_pooled(values: np.ndarray) -> np.ndarray:
    """The rule, but with the larger of the rows' common variance and the row's own."""
    found = against_base.contrasts(values)
    own = (values - values[:, 1:].mean(1, keepdims=True))[:, 1:].var(2, ddof=1)
    common = own.mean(1, keepdims=True)
    degrees = (own.shape[1] - 1) * found.degrees_of_base
    degrees_of_rows = np.full(common.shape, float(degrees))
    return _stars(found._replace(of_rows=np.maximum(own, common), degrees_of_rows=degrees_of_rows))


CANDIDATES: dict[str, Rule] = {
    "the rule": of_reports,
    "Welch, Holm": welch_holm,
    "paired t, Holm": paired_holm,
    "Dunnett, one variance": dunnett,
    "Dunnett, larger of common and own": dunnett_larger,
    "Dunnett, wild rows leave (F)": dunnett_without_wild,
    "moderated differences": moderated_differences,
    "base apart, larger of common and own": base_apart_pooled,
    "of rows with other seeds: Welch": welch_bonferroni,
}


@functools.cache
def dunnett_ratio(num_rows: int, degrees: int) -> float:
    """The limit that the largest of the differences, in standard errors, exceeds in 5 % of tables.

    For one base, one variance of `degrees` for all, and as many seeds of base as of a row.
    """
    from scipy import optimize, special

    nodes, weights = np.polynomial.legendre.leggauss(96)
    deviations = np.sqrt(special.chdtri(degrees, (1 - nodes) / 2) / degrees)[:, None]
    of_base = 8 * nodes
    density = 8 * np.exp(-(of_base**2) / 2) / np.sqrt(2 * np.pi) * weights

    def excess(ratio: float) -> float:
        reach = ratio * np.sqrt(2) * deviations
        inside = special.ndtr(of_base + reach) - special.ndtr(of_base - reach)
        return 1 - SIGNIFICANT - weights / 2 @ (inside**num_rows @ density)

    found: Any = optimize.brentq(excess, 0.5, 500)
    return found


def share_interval(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share (Clopper and Pearson 1934)."""
    from scipy import special

    low = special.betaincinv(hits, trials - hits + 1, 0.025) if hits else 0.0
    high = special.betaincinv(hits + 1, trials - hits, 0.975) if hits < trials else 1.0
    return float(low), float(high)


def false_alarms(
    rule: Rule, noise: str, shape: tuple[int, int, int], seed: int = 0, of_related: float = 0.0
) -> int:
    """How many tables without any real difference have a star."""
    of_seeds = 0.0 if rule is welch_bonferroni else 1.0  # other seeds share nothing
    random = np.random.default_rng(seed)
    values = tables(random, shape, noise, of_seeds=of_seeds, of_related=of_related)
    return int(rule(values).any(1).sum())


def power(rule: Rule, difference: float, shape: tuple[int, int, int], seed: int = 0) -> float:
    """The share of real differences that get a star; equal noise, nothing shared at a seed."""
    values = tables(np.random.default_rng(seed), shape, difference=difference, of_seeds=0.0)
    return float(rule(values)[:, : shape[1] // 2].mean())


def power_beside_a_wild_row(rule: Rule, difference: float, shape: tuple[int, int, int]) -> float:
    """The same of the other rows if the first is 50 times as noisy; NaN if no other differs."""
    values = tables(np.random.default_rng(0), shape, "one row x50", difference=difference)
    stars = rule(values)[:, 1 : shape[1] // 2]
    return float(stars.mean()) if stars.size else math.nan


def grid_text(num_tables: int, seeds: Sequence[int], rows: Sequence[int]) -> str:
    """The rule at every size; its power next to that of Welch's test with Holm's correction."""
    titles = ["seeds", "rows", *NOISE, *(f"power {each:g}" for each in DIFFERENCES), "wild 4"]
    lines = [titles, ["--:"] * len(titles)]
    for num_seeds in seeds:
        for num_rows in rows:
            shape = num_tables, num_rows, num_seeds
            cells = [_share_text(false_alarms(of_reports, each, shape), shape) for each in NOISE]
            fewer = (max(1, num_tables // 4), *shape[1:])
            for each in DIFFERENCES:
                ours, welch = (power(rule, each, fewer) for rule in (of_reports, welch_holm))
                cells.append(f"{100 * ours:.0f} ({100 * welch:.0f})")
            wild = power_beside_a_wild_row(of_reports, DIFFERENCES[-1], fewer)
            cells.append("" if math.isnan(wild) else f"{100 * wild:.0f}")
            lines.append([str(num_seeds), str(num_rows), *cells])
            print(f"simulated: {num_seeds} seeds, {num_rows} rows", file=sys.stderr)
    return _table_text(lines)


def related_text(num_tables: int, seeds: Sequence[int], rows: Sequence[int]) -> str:
    """False alarms of the rule where two fifths of the rows share noise that base lacks."""
    titles = ["seeds", "rows", *(f"shared {each:g}" for each in RELATED)]
    lines = [titles, ["--:"] * len(titles)]
    for num_seeds in seeds:
        for num_rows in rows:
            shape = num_tables, num_rows, num_seeds
            hits = [false_alarms(of_reports, "equal", shape, of_related=each) for each in RELATED]
            cells = [_share_text(each, shape) for each in hits]
            lines.append([str(num_seeds), str(num_rows), *cells])
            print(f"simulated: {num_seeds} seeds, {num_rows} rows", file=sys.stderr)
    return _table_text(lines)


def candidates_text(num_tables: int, seeds: Sequence[int], rows: Sequence[int]) -> str:
    """For each candidate, the most false alarms over all sizes, by noise, and the mean power."""
    titles = ["candidate", *NOISE, *(f"power {each:g}" for each in DIFFERENCES)]
    lines = [titles, ["--", *["--:"] * (len(titles) - 1)]]
    for name, rule in CANDIDATES.items():
        shapes = [(num_tables, num_rows, num_seeds) for num_seeds in seeds for num_rows in rows]
        cells = [
            f"{100 * max(false_alarms(rule, noise, shape) for shape in shapes) / num_tables:.1f}"
            for noise in NOISE
        ]
        for each in DIFFERENCES:
            found = [power(rule, each, (max(1, num_tables // 4), *s[1:])) for s in shapes]
            cells.append(f"{100 * sum(found) / len(found):.0f}")
        lines.append([name, *cells])
        print(f"simulated: {name}", file=sys.stderr)
    return _table_text(lines)


def _stars(found: against_base.Contrasts) -> np.ndarray:
    stars = np.zeros(found.differences.shape, bool)
    # If the farthest row has none, no row has.
    has_any = against_base.smallest_p_value(found) < SIGNIFICANT
    if has_any.any():
        stars[has_any] = against_base.p_values(found.only(has_any)) < SIGNIFICANT
    return stars


def _share_text(hits: int, shape: tuple[int, int, int]) -> str:
    low, high = share_interval(hits, shape[0])
    return f"{100 * hits / shape[0]:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def _table_text(lines: Sequence[Sequence[str]]) -> str:
    first, rule, *others = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([first, rule.replace(" ", ""), *others])


def _welch(values: np.ndarray) -> np.ndarray:
    from scipy import special

    num_seeds = values.shape[2]
    squares = values.var(2, ddof=1) / num_seeds
    total = squares[:, 1:] + squares[:, :1]
    degrees = total**2 * (num_seeds - 1) / (squares[:, 1:] ** 2 + squares[:, :1] ** 2)
    means = values.mean(2)
    return 2 * special.stdtr(degrees, -abs(means[:, 1:] - means[:, :1]) / np.sqrt(total))


def _holm(p: np.ndarray) -> np.ndarray:
    order = p.argsort(1)
    steps = np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1)
    stars = np.empty(p.shape, bool)
    np.put_along_axis(stars, order, np.maximum.accumulate(steps, 1) < SIGNIFICANT, 1)
    return stars


def _dunnett(values: np.ndarray, variance: Callable) -> np.ndarray:
    num_tables, num_all, num_seeds = values.shape
    degrees = (num_all - 1) * (num_seeds - 1)
    pooled = _squares(values, np.ones((num_tables, num_all), bool)).sum(1) / degrees
    paired = values[:, 1:] - values[:, :1]
    used = variance(2 * pooled[:, None], paired.var(2, ddof=1))
    return abs(paired.mean(2)) > dunnett_ratio(num_all - 1, degrees) * np.sqrt(used / num_seeds)


def _squares(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Squared residuals of rows and seeds, summed by row, over the rows that count."""
    its = np.where(counts[:, :, None], values, 0.0)
    left = values - its.sum(1, keepdims=True) / counts.sum(1)[:, None, None]
    left -= left.mean(2, keepdims=True)
    return np.where(counts, (left**2).sum(2), 0.0)


def main(argv: list[str]) -> None:
    """Reads the flags, prints the table."""
    values = flags.FLAGS
    try:
        seeds, rows = (
            [int(each) for each in values[name].value or []] for name in ("seeds", "rows")
        )
    except ValueError:
        sys.exit("simulation: --seeds and --rows are whole numbers, such as --seeds=3,5")
    if len(argv) != 1 or min(seeds, default=0) < 2 or min(rows, default=0) < 2:
        sys.exit("simulation: takes no argument, and --seeds and --rows of at least 2")
    if values.related and min(rows) < 5:
        sys.exit("simulation: two fifths of --rows are related: at least 5")
    if values.candidates and values.related:
        sys.exit("simulation: --candidates and --related are two tables: ask for one of them")
    text = candidates_text if values.candidates else grid_text
    if values.related:
        text = related_text
    print(text(values.tables, seeds, rows))


if __name__ == "__main__":
    flags.DEFINE_integer("tables", 4000, "simulated tables of each kind", lower_bound=1)
    flags.DEFINE_list("seeds", ["2", "3", "5", "10"], "seeds of a row")
    flags.DEFINE_list("rows", ["2", "3", "5", "10", "20"], "rows beside base")
    flags.DEFINE_bool("candidates", False, "also show the rules that were not chosen")
    flags.DEFINE_bool("related", False, "show what rows that share noise do to the rule")
    app.run(main, flags_parser=functools.partial(parse_flags, "simulation"))
