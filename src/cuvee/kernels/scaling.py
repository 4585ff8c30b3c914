"""How loss falls with compute: a curve through a few sizes, and the compute that a better loss stands for.

loss = floor + scale (compute / unit)^-exponent (Hestness et al. 2017, arXiv 1712.00409; the floor is what no compute
removes). Compute in any one unit, such as FLOPs of a training run.
"""
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar, nnls

LEAST_SIZES = 3  # a curve of three numbers needs as many points
LOWEST, HIGHEST = 1e-3, 5.0  # exponents; language models lie near .05 to .3 (Kaplan et al. 2020, Hoffmann et al. 2022)
CARRIED = 4.0  # fall of chi-squared that a floor must be worth: two standard errors
LEVEL = 0.9  # of the interval of a gain
_GRID = np.linspace(np.log(LOWEST), np.log(HIGHEST), 40)


class Points(NamedTuple):
    """Mean loss of each size with its standard error; (sizes,) each."""

    compute: np.ndarray
    loss: np.ndarray
    error: np.ndarray


class Curve(NamedTuple):
    floor: float
    scale: float
    exponent: float
    unit: float

    def loss(self, compute: float) -> float:
        return self.floor + self.scale * (compute / self.unit) ** -self.exponent

    def gain(self, compute: float, difference: float) -> float:
        """Times the compute that a loss lower by -difference stands for at this compute; inf where no compute reaches it."""
        above = self.loss(compute) - self.floor
        left = above + difference
        with np.errstate(over="ignore"):
            return float(np.float64(above / left) ** (1 / self.exponent)) if left > 0 else np.inf


def pooled_error(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Standard error of each size's mean, from one SD of runs around their size's mean. scores: (runs,) of each -> (sizes,)"""
    counts = np.array([len(each) for each in scores])
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in scores)
    return np.sqrt(squares / (counts.sum() - len(scores)) / counts)


def fit(points: Points, floored: bool) -> Curve:
    """Weighted least squares over the exponent; floor and scale, >= 0, follow from it. Without a floor it is 0."""
    unit = float(np.exp(np.log(points.compute).mean()))
    log, error = np.log(points.compute / unit), np.maximum(points.error, 1e-9 * points.loss)

    def solved(at: float) -> tuple[np.ndarray, float]:
        falling = np.exp(-np.exp(at) * log)
        columns = np.column_stack([falling, np.ones(len(log))] if floored else [falling])
        return nnls(columns / error[:, None], points.loss / error)

    best = int(np.argmin([solved(at)[1] for at in _GRID]))
    around = _GRID[max(best - 1, 0)], _GRID[min(best + 1, len(_GRID) - 1)]
    exponent = minimize_scalar(lambda at: solved(at)[1] ** 2, bounds=around, method="bounded", options={"xatol": 1e-9}).x
    scale, *floor = solved(exponent)[0].tolist()
    return Curve(floor[0] if floor else 0.0, scale, float(np.exp(exponent)), unit)


def misfit(curve: Curve, points: Points) -> float:
    """Chi-squared: squared distances of the points from the curve, in standard errors."""
    fitted = np.array([curve.loss(compute) for compute in points.compute])
    return float((((fitted - points.loss) / np.maximum(points.error, 1e-9 * points.loss)) ** 2).sum())


def choose(points: Points) -> tuple[Curve, bool] | None:
    """The curve, and whether the points carry a floor; None for under three sizes, or where more compute does not help."""
    if len(points.compute) < LEAST_SIZES:
        return None
    bare, floored = fit(points, False), fit(points, True)
    carried = misfit(bare, points) - misfit(floored, points) > CARRIED
    found = floored if carried else bare
    return None if found.exponent < 2 * LOWEST or found.scale == 0 else (found, carried)


def redrawn(points: Points, floored: bool, count: int, rng: np.random.Generator) -> list[Curve]:
    """Curves that might have been: of the same form, through points moved by their errors."""
    moved = points.loss + points.error * rng.standard_normal((count, len(points.loss)))
    return [fit(points._replace(loss=each), floored) for each in moved]


def gain_interval(curves: list[Curve], compute: float, difference: float, error: float, spare: int,
                  rng: np.random.Generator) -> tuple[float, float]:
    """Where the gain lies, by redrawn curves and a difference redrawn by Student's t with `spare` degrees of freedom; inf: no limit."""
    drawn = difference + error * rng.standard_t(spare, len(curves))
    gains = [curve.gain(compute, float(each)) for curve, each in zip(curves, drawn)]
    low, high = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return float(low), float(high)
