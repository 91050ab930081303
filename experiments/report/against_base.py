"""Many rows against one base, seed by seed: differences, simultaneous intervals and p values.

In: the numbers of tables whose rows all have the same seeds. Out: intervals and p values.
docs/STATISTICS.md has the rule in words, its reasons and the simulation that it was chosen by.
Everything works on many tables at once, so that simulation and reports use the same code.
"""

import math
from typing import NamedTuple

import numpy as np

# For the integral over the base's error, on each side of where it begins to matter.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_WILD = 16.0  # in variance
_PRECISION = 1e-7  # no interval is wider than it should be by more than this share
_NO_NOISE = 1e-9  # standard errors below this share of the difference are rounding alone


class Contrasts(NamedTuple):
    """How far rows are from base, and what is known about the noise; variances are per seed.

    A difference is a row's distance from the mean of the rows minus that of base. Neither contains
    the variation of the seed that all rows share. With one row or two, base's part is in the rows'.
    """

    differences: np.ndarray  # tables, rows
    of_base: np.ndarray  # tables, 1: the variance of base, from its own seeds alone
    of_rows: np.ndarray  # tables, rows: the variance of each row, moderated by the others
    degrees_of_base: int
    degrees_of_rows: np.ndarray  # tables, rows, or 1 for all
    num_seeds: int

    @property
    def errors(self) -> np.ndarray:
        """The standard error of each difference."""
        return np.sqrt((self.of_base + self.of_rows) / self.num_seeds)

    def only(self, tables: np.ndarray) -> "Contrasts":
        """The contrasts of some of the tables."""
        return self._replace(
            differences=self.differences[tables],
            of_base=self.of_base[tables],
            of_rows=self.of_rows[tables],
            degrees_of_rows=self.degrees_of_rows[tables],
        )

    @property
    def have_noise(self) -> np.ndarray:
        """Whether there is any spread to compare a difference with."""
        return self.errors > _NO_NOISE * abs(self.differences)


def contrasts(values: np.ndarray) -> Contrasts:
    """Contrasts of `values`: tables, rows and at least two seeds; the first row is base.

    Base is in all differences: its variance is its own. That of a row is moderated (Smyth 2004):
    shrunk towards the rows' common one as far as they are alike, and never less than its own.
    Of two rows, neither noise can be told from the other's: each has that of its differences.
    """
    num_rows, num_seeds = values.shape[1] - 1, values.shape[2]
    degrees = num_seeds - 1
    if num_rows < 3:
        paired = values[:, 1:] - values[:, :1]
        return Contrasts(
            differences=paired.mean(2),
            of_base=np.zeros((len(values), 1)),
            of_rows=paired.var(2, ddof=1),
            degrees_of_base=degrees,
            degrees_of_rows=np.full((len(values), 1), float(degrees)),
            num_seeds=num_seeds,
        )
    is_wild = are_wild(values[:, 1:])
    weights = np.where(is_wild, 0, 1 / np.sum(~is_wild, axis=1, keepdims=True))[:, :, None]
    # Their mean stands for what rows share at a seed.
    centred = values - (weights * values[:, 1:]).sum(1, keepdims=True)
    means = centred.mean(2)
    variances = centred.var(2, ddof=1)
    own = variances[:, 1:]
    # A row that never varies, as at 100 % of probes, has no noise, whatever the others share.
    own[np.ptp(values[:, 1:], axis=2) == 0] = 0
    # The mean of the rows contains a part of each, which counts as base's: for a row unlike the
    # others, what is its own (Grubbs 1948) less that part, so that with base's the sum is right.
    rest = 1 - 2 * weights[:, :, 0]
    shares = weights[:, :, 0] ** 2 / rest
    part = (shares * own).sum(1, keepdims=True) / (1 + shares.sum(1, keepdims=True))
    alone = (own - part) / rest - part
    alike = np.where(is_wild, 0, own)
    of_rows, prior_degrees = moderated(alike, degrees)
    num_varying = (alike > 0).sum(1, keepdims=True)
    # No more than all the rows have together; a wild row has its own.
    together = np.minimum(prior_degrees + degrees, np.maximum(1, num_varying - 1) * degrees)
    return Contrasts(
        differences=means[:, 1:] - means[:, :1],
        of_base=variances[:, :1],
        of_rows=np.maximum(of_rows, alone),
        degrees_of_base=degrees,
        degrees_of_rows=np.where(is_wild, degrees, together),
        num_seeds=num_seeds,
    )


def are_wild(rows: np.ndarray) -> np.ndarray:
    """Which rows of tables, rows and seeds are too noisy to say anything about the others.

    The median of such a row's variances against each other row is `_WILD` times what is usual.
    Unless fewer than three would be left: then none is.
    """
    num_rows, num_seeds = rows.shape[1:]
    if num_rows <= 3:
        return np.zeros(rows.shape[:2], bool)
    left = rows - rows.mean(2, keepdims=True)
    products = left @ left.transpose(0, 2, 1) / (num_seeds - 1)
    own = np.diagonal(products, axis1=1, axis2=2)
    against = own[:, :, None] + own[:, None, :] - 2 * products
    others = against[:, ~np.eye(num_rows, dtype=bool)].reshape(-1, num_rows, num_rows - 1)
    noise = np.median(others, axis=2)
    is_wild = noise > _WILD * np.median(noise, axis=1, keepdims=True)
    return is_wild & (np.sum(~is_wild, axis=1, keepdims=True) >= 3)


def p_values(found: Contrasts) -> np.ndarray:
    """Two-sided, corrected for the number of rows; meaningless without noise."""
    ratios = _ratios(found)
    return np.stack([1 - _coverage(found, ratio) for ratio in ratios.T], axis=1)


def smallest_p_value(found: Contrasts) -> np.ndarray:
    """The p value of the row of each table farthest from base, in standard errors."""
    return 1 - _coverage(found, _ratios(found).max(1))


def half_widths(found: Contrasts, level: float) -> np.ndarray:
    """Half of each simultaneous interval: in 1 - `level` of all tables, all of them hold.

    `level` is below 0.3: a standard error is less than half of any interval. By the secant method,
    since the logarithm of the p value is nearly linear in that of the ratio.
    """

    def excess(tables: np.ndarray, logs: np.ndarray) -> np.ndarray:
        p_value = 1 - _coverage(found.only(tables), np.exp(logs))
        return np.log(np.maximum(p_value, np.finfo(float).tiny) / level)

    tables = np.arange(len(found.differences))
    low, high = np.zeros(len(tables)), np.full(len(tables), math.log(4.0))
    before, of_before, of_high = low.copy(), excess(tables, low), excess(tables, high)
    high[of_before <= 0] = 0.0  # no noise, no width
    while (is_short := of_high > 0).any():
        low[is_short] = before[is_short] = high[is_short]
        of_before[is_short] = of_high[is_short]
        high[is_short] += 1
        of_high[is_short] = excess(tables[is_short], high[is_short])
    now, of_now = high.copy(), of_high
    for turn in range(60):
        left = tables[high - low > _PRECISION]
        if not len(left):
            break
        with np.errstate(divide="ignore", invalid="ignore"):  # of a slope of zero
            step = (now[left] - before[left]) / (of_now[left] - of_before[left])
            root = now[left] - of_now[left] * step
        # A little to the side of it where the interval's other end is to be.
        is_below = high[left] - root > 0.8 * _PRECISION
        aim = root + np.where(is_below, 0.4, -0.4) * _PRECISION
        inside = (low[left] < aim) & (aim < high[left]) & (turn < 20)
        aim = np.where(inside, aim, (low[left] + high[left]) / 2)
        before[left], of_before[left] = now[left], of_now[left]
        now[left], of_now[left] = aim, excess(left, aim)
        is_enough = of_now[left] <= 0
        low[left] = np.where(is_enough, low[left], aim)
        high[left] = np.where(is_enough, aim, high[left])
    return np.exp(high)[:, None] * found.errors


def _ratios(found: Contrasts) -> np.ndarray:
    return abs(found.differences) / np.maximum(found.errors, np.finfo(float).tiny)


def _coverage(found: Contrasts, ratio: np.ndarray) -> np.ndarray:
    """The share of tables in which no row errs by more than `ratio` of its standard error.

    The errors of base and of rows follow Student's t with their own degrees: the many-row form of
    Behrens and Fisher's solution, which becomes Dunnett's test as the seeds become many.
    """
    from scipy import special  # takes a second to load

    total = found.of_base + found.of_rows
    least = np.maximum(1e-12 * total, np.finfo(float).tiny)
    spread_of_rows = np.sqrt(np.maximum(found.of_rows, least))
    spread_of_base = np.sqrt(np.maximum(found.of_base, least.min(1, keepdims=True)))
    # A row without noise never errs.
    reach = np.where(total > 0, ratio[:, None] * np.sqrt(total), np.inf)
    shortest = reach.min(1, keepdims=True)
    shortest = np.where(np.isfinite(shortest), shortest, 0.0)
    # From here on, the error of base alone exceeds what some row allows.
    edge = special.stdtr(found.degrees_of_base, shortest / spread_of_base)
    edge = np.minimum(edge, 1 - 1e-12)  # where base's error is finite
    degrees = np.broadcast_to(found.degrees_of_rows, reach.shape)
    shares = np.zeros(len(ratio))
    for low, high in ((0.5, edge), (edge, 1.0)):
        quantiles = low + (high - low) * (1 + _NODES) / 2
        errors = spread_of_base * special.stdtrit(found.degrees_of_base, quantiles)
        inside = np.ones_like(errors)
        for row in range(reach.shape[1]):
            its_reach, its_spread, its_degrees = (
                of_rows[:, row, None] for of_rows in (reach, spread_of_rows, degrees)
            )
            above, below = (
                special.stdtr(its_degrees, (errors + reaches) / its_spread)
                for reaches in (its_reach, -its_reach)
            )
            inside *= above - below
        # Twice: the other half is its mirror image.
        shares += 2 * (inside * (high - low) / 2) @ _WEIGHTS
    return np.clip(shares, 0.0, 1.0)


def moderated(variances: np.ndarray, degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """Variances shrunk towards their common one, and the degrees of freedom that it is worth.

    By the moments of their logarithms (Smyth 2004, section 6.2). Rows that do not vary say nothing
    about the others.
    """
    from scipy import special

    varies = variances > 1e-9 * variances.mean(1, keepdims=True)
    count = np.maximum(varies.sum(1, keepdims=True), 1)
    logs = np.where(varies, np.log(np.where(varies, variances, 1.0)), 0.0)
    logs -= varies * (special.digamma(degrees / 2) - np.log(degrees / 2))
    mean = logs.sum(1, keepdims=True) / count
    spread = (varies * (logs - mean) ** 2).sum(1, keepdims=True) / np.maximum(count - 1, 1)
    excess = spread - special.polygamma(1, degrees / 2)
    prior_degrees = np.full(excess.shape, np.inf)
    differ = excess > 1e-6
    prior_degrees[differ] = 2 * _inverse_trigamma(excess[differ])
    half = np.where(differ, prior_degrees, 2.0) / 2
    pooled = (varies * variances).sum(1, keepdims=True) / count
    common = np.where(differ, np.exp(mean + special.digamma(half) - np.log(half)), pooled)
    weight = np.where(differ, half / (half + degrees / 2), 1.0)
    return weight * common + (1 - weight) * variances, prior_degrees


def _inverse_trigamma(values: np.ndarray) -> np.ndarray:
    """By Newton's method on its reciprocal, from below (Smyth 2004, appendix)."""
    from scipy import special

    found = 0.5 + 1 / values
    for _ in range(30):
        trigamma = special.polygamma(1, found)
        found = found + trigamma * (1 - trigamma / values) / special.polygamma(2, found)
    return found
