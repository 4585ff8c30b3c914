"""Fit score = floor + exp(intercept + features @ coefficients) with bounds and ridge; compiled."""
import numpy as np
from numba import njit

_SWEEPS = 300
_SETTLED = 1e-6  # largest move of a sweep, in units of the response
_LARGEST_EXPONENT = 50.0


@njit(cache=True, nogil=True)
def _descend(gram, moment, lower, coefficients):
    """Minimise x' gram x / 2 - moment' x over x >= lower by coordinate descent, in place."""
    count = len(moment)
    slope = gram @ coefficients - moment
    for _ in range(_SWEEPS):
        largest = 0.0
        for j in range(count):
            move = max(lower[j], coefficients[j] - slope[j] / gram[j, j]) - coefficients[j]
            if move != 0.0:
                coefficients[j] += move
                for k in range(count):
                    slope[k] += move * gram[j, k]
                largest = max(largest, abs(move) * np.sqrt(gram[j, j]))
        if largest < _SETTLED:
            break


@njit(cache=True, nogil=True)
def _ridge(features, response, importance, penalty, lower, coefficients):
    """Weighted ridge with bounds, in place; returns the intercept, which carries no penalty."""
    share = importance / importance.sum()
    middle = share @ features
    level = share @ response
    root = np.sqrt(share)
    centred = (features - middle) * root.reshape(-1, 1)
    gram = centred.T @ centred
    for j in range(len(lower)):
        gram[j, j] += penalty + 1e-15
    _descend(gram, centred.T @ (root * (response - level)), lower, coefficients)
    return level - middle @ coefficients


@njit(cache=True, nogil=True)
def growth(features, intercept, coefficients):
    """exp(intercept + features @ coefficients), kept finite. -> (runs,)"""
    return np.exp(np.minimum(intercept + features @ coefficients, _LARGEST_EXPONENT))


@njit(cache=True, nogil=True)
def fit_exponential(features, scores, floor, penalty, lower, steps):
    """Least squares on the scores: ridge on log(score - floor), then at most `steps` Gauss-Newton steps.

    Minimises mean((score - floor - growth)^2) / unit + penalty |coefficients|^2, unit = mean((score - floor)^2),
    so a penalty means the same for every task. A step that does not help is halved.
    features: (runs, k); lower: (k,) bounds, 0 or -inf  ->  intercept, coefficients (k,)
    """
    above = scores - floor
    unit = (above ** 2).mean() + 1e-300
    start = np.maximum(above, 0.05 * scores.std() + 1e-12)  # scores below the floor have no logarithm
    coefficients = np.maximum(0.0, lower)
    intercept = _ridge(features, np.log(start), start ** 2, penalty, lower, coefficients)
    grown = growth(features, intercept, coefficients)
    loss = ((above - grown) ** 2).mean() / unit + penalty * (coefficients @ coefficients)
    for _ in range(steps):
        importance = grown ** 2 + 1e-12 * unit
        response = np.log(grown) + (above - grown) / grown
        goal = coefficients.copy()
        goal_intercept = _ridge(features, response, importance, penalty * unit / importance.mean(), lower, goal)
        step, before = 1.0, loss
        while step > 1e-3:
            new = coefficients + step * (goal - coefficients)
            new_intercept = intercept + step * (goal_intercept - intercept)
            new_grown = growth(features, new_intercept, new)
            new_loss = ((above - new_grown) ** 2).mean() / unit + penalty * (new @ new)
            if new_loss <= loss:
                intercept, coefficients, grown, loss = new_intercept, new, new_grown, new_loss
                break
            step *= 0.5
        if before - loss <= 1e-7 * before:
            break
    return intercept, coefficients
