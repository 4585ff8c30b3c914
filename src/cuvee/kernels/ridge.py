"""Fit score = floor + exp(intercept + features @ coefficients) with bounds and ridge; compiled."""
import numpy as np
from numba import njit

_PIVOTS = 200  # of the bounded least squares; from a near start it takes under ten
_PATIENCE = 3  # exchanges of whole blocks that may fail to help before single ones
_EXACT = 1e-10  # of the largest moment, or coefficient
_LARGEST_EXPONENT = 50.0


@njit(cache=True, nogil=True)
def _solve(gram, moment):
    """gram^-1 moment by Cholesky's factor; by LU where rounding has left the gram not positive definite."""
    try:
        factor = np.linalg.cholesky(gram)
    except Exception:
        return np.linalg.solve(gram, moment)
    x = moment.copy()
    for i in range(len(x)):
        x[i] = (x[i] - factor[i, :i] @ x[:i]) / factor[i, i]
    for i in range(len(x) - 1, -1, -1):
        x[i] /= factor[i, i]
        for j in range(i):
            x[j] -= factor[i, j] * x[i]
    return x


@njit(cache=True, nogil=True)
def solve_bounded(gram, moment, lower, x):
    """Minimise x' gram x / 2 - moment' x over x >= lower, in place and exactly; `x` is where to start from.

    Block pivoting, single pivots where it stalls (Portugal, Judice and Vicente, 1994). gram: positive definite
    (k, k); lower: (k,), each 0 or -inf
    """
    bounded = lower == 0.0
    free = ~bounded | (x > 0.0)
    fewest, patience = len(x) + 1, _PATIENCE
    for _ in range(_PIVOTS):
        inner = np.flatnonzero(free)
        x[:] = 0.0
        if len(inner) > 0:
            x[inner] = _solve(gram[inner][:, inner], moment[inner])
        slope = gram @ x - moment
        wrong = (free & bounded & (x < -_EXACT * np.abs(x).max())) | (~free & (slope < -_EXACT * np.abs(moment).max()))
        count = wrong.sum()
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, _PATIENCE
        else:
            patience -= 1
        if patience >= 0:
            free ^= wrong
        else:
            free[np.flatnonzero(wrong)[-1]] ^= True
    x[:] = np.maximum(x, lower)


@njit(cache=True, nogil=True)
def moments(features, response, importance):
    """Weighted and centred. (runs, k), (runs,), (runs,) -> gram (k, k), moment (k,), means of features (k,) and of the response"""
    share = importance / importance.sum()
    middle = share @ features
    level = share @ response
    root = np.sqrt(share)
    centred = np.empty_like(features)
    for run in range(len(features)):
        for column in range(features.shape[1]):
            centred[run, column] = (features[run, column] - middle[column]) * root[run]
    return centred.T @ centred, centred.T @ (root * (response - level)), middle, level


@njit(cache=True, nogil=True)
def growth(features, intercept, coefficients):
    """exp(intercept + features @ coefficients), kept finite, and over 0 so that it has a logarithm. -> (runs,)"""
    return np.exp(np.maximum(np.minimum(intercept + features @ coefficients, _LARGEST_EXPONENT), -_LARGEST_EXPONENT))


@njit(cache=True, nogil=True)
def _ridge(features, response, importance, penalty, lower, centre, coefficients):
    """Weighted ridge around `centre` with bounds, in place; returns the intercept, which carries no penalty."""
    gram, moment, middle, level = moments(features, response, importance)
    for j in range(len(lower)):
        gram[j, j] += penalty + 1e-15
        moment[j] += penalty * centre[j]
    solve_bounded(gram, moment, lower, coefficients)
    return level - middle @ coefficients


@njit(cache=True, nogil=True)
def fit_exponential(features, scores, floor, penalty, lower, centre, steps):
    """Least squares on the scores: ridge on log(score - floor), then at most `steps` Gauss-Newton steps.

    Minimises mean((score - floor - growth)^2) / unit + penalty |coefficients - centre|^2, unit = mean((score - floor)^2),
    so a penalty means the same for every task. A step that does not help is halved.
    features: (runs, k); lower: (k,) bounds, 0 or -inf; centre: (k,)  ->  intercept, coefficients (k,)
    """
    above = scores - floor
    unit = (above ** 2).mean() + 1e-300
    start = np.maximum(above, 0.05 * scores.std() + 1e-12)  # scores below the floor have no logarithm
    coefficients = np.maximum(centre, lower)
    intercept = _ridge(features, np.log(start), start ** 2, penalty, lower, centre, coefficients)
    grown = growth(features, intercept, coefficients)
    loss = ((above - grown) ** 2).mean() / unit + penalty * ((coefficients - centre) ** 2).sum()
    for _ in range(steps):
        importance = grown ** 2 + 1e-12 * unit
        response = np.log(grown) + (above - grown) / grown
        goal = coefficients.copy()
        goal_intercept = _ridge(features, response, importance, penalty * unit / importance.mean(), lower, centre, goal)
        step, before = 1.0, loss
        while step > 1e-3:
            new = coefficients + step * (goal - coefficients)
            new_intercept = intercept + step * (goal_intercept - intercept)
            new_grown = growth(features, new_intercept, new)
            new_loss = ((above - new_grown) ** 2).mean() / unit + penalty * ((new - centre) ** 2).sum()
            if new_loss <= loss:
                intercept, coefficients, grown, loss = new_intercept, new, new_grown, new_loss
                break
            step *= 0.5
        if before - loss <= 1e-7 * before:
            break
    return intercept, coefficients
