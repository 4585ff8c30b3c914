"""Document vectors: int8 codes, and the offline embedder (hashed TF-IDF, randomised SVD), all deterministic."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import sparse

OVERSAMPLE = 16  # extra directions of the range finder; Halko, Martinsson and Tropp 2011, sec. 4.2, ask for 5 to 10
POWER_ROUNDS = 4  # TF-IDF spectra decay slowly; ibid. sec. 4.5
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd: Knuth, TAOCP vol. 3, sec. 6.4


def scale_of(dimensions: int) -> float:
    """Width of one int8 step: coordinates of a unit vector are near 1/sqrt(d); beyond 9.6 of those they are clipped."""
    return min(1.0, 9.6 / np.sqrt(dimensions)) / 127


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows divided by their Euclidean length; a zero row stays zero. (n, d) -> float32 (n, d)"""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return (rows / np.where(length > 0, length, 1.0)[:, None]).astype(np.float32)


def quantise(vectors: np.ndarray) -> tuple[np.ndarray, int]:
    """Unit vectors as int8 codes in steps of `scale_of(d)`, and how many values had to be clipped.

    float32 (n, d)  ->  int8 (n, d), count
    """
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise ValueError(f"vectors must be finite; row {row} is not. Embed that document again or leave it out.")
    steps = np.rint(vectors / np.float32(scale_of(vectors.shape[1])))
    clipped = int((np.abs(steps) > 127).sum())
    return np.clip(steps, -127, 127).astype(np.int8), clipped


def dequantise(codes: np.ndarray) -> np.ndarray:
    """The inverse of `quantise` up to half a step: int8 (n, d) -> float32 (n, d), of length near 1."""
    return codes.astype(np.float32) * np.float32(scale_of(codes.shape[1]))


@njit(cache=True, nogil=True)
def _count(hashes, offsets, shift, seen, columns, counts, ends):
    """Distinct columns of each document, ascending, with their number of tokens; `seen` comes and goes all zero."""
    used = 0
    for row in range(len(offsets) - 1):
        first = used
        for token in range(offsets[row], offsets[row + 1]):
            column = np.int64((hashes[token] * GOLDEN) >> shift)
            if seen[column] == 0:
                columns[used] = column
                used += 1
            seen[column] += 1
        columns[first:used].sort()
        for slot in range(first, used):
            counts[slot] = seen[columns[slot]]
            seen[columns[slot]] = 0
        ends[row + 1] = used


def term_weights(hashes: np.ndarray, offsets: np.ndarray, columns: int) -> sparse.csr_array:
    """Sublinear term frequencies 1 + ln(count), words hashed to columns (Weinberger et al. 2009, without signs).

    hashes: uint64 (tokens,), offsets: int64 (documents + 1,), columns: a power of two  ->  float32 (documents, columns)
    """
    bits = int(columns).bit_length() - 1
    if columns != 1 << bits or not 1 <= bits <= 30:
        raise ValueError(f"columns must be a power of two from 2 to 2**30; got {columns}. Nearest: {1 << max(bits, 1)}.")
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(hashes) or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must rise from 0 to the number of tokens, {len(hashes)}. Rebase a slice by offsets - offsets[0].")
    used = np.empty(len(hashes), np.int32)
    counts = np.empty(len(hashes), np.int32)
    ends = np.zeros(len(offsets), np.int64)
    _count(hashes, offsets, np.uint64(64 - bits), np.zeros(columns, np.int32), used, counts, ends)
    weights = (1 + np.log(counts[: ends[-1]])).astype(np.float32)
    return sparse.csr_array((weights, used[: ends[-1]], ends), shape=(len(offsets) - 1, columns))


def fit_idf(weights: sparse.csr_array) -> np.ndarray:
    """Smoothed inverse document frequency ln((1 + n) / (1 + df)) + 1; 0 for columns in under two documents.

    A column of one document cannot say which documents are alike. (documents, columns) -> float32 (columns,)
    """
    rows, columns = weights.shape
    holds = np.bincount(weights.indices, minlength=columns)
    return np.where(holds > 1, np.log((1 + rows) / (1 + holds)) + 1, 0).astype(np.float32)


def _singular_directions(matrix: sparse.csr_array, count: int, rng: np.random.Generator) -> np.ndarray:
    """Leading right singular vectors by a seeded range finder with power rounds (Halko et al. 2011, alg. 4.4, 5.1).

    Each is turned so that its largest coordinate is positive. float32 (n, m) -> float32 (m, count or the rank if less)
    """
    width = min(count + OVERSAMPLE, *matrix.shape)
    turned = matrix.T.tocsr()
    basis = np.linalg.qr(matrix @ rng.standard_normal((matrix.shape[1], width), dtype=np.float32))[0]
    for _ in range(POWER_ROUNDS):
        basis = np.linalg.qr(matrix @ np.linalg.qr(turned @ basis)[0])[0]
    image = turned @ basis
    squares, mix = np.linalg.eigh(image.T.astype(np.float64) @ image)
    keep = np.flatnonzero(squares > 1e-6 * squares[-1])[::-1][:count]  # float32 products know no smaller ones
    directions = image @ (mix[:, keep] / np.sqrt(squares[keep]))
    top = directions[np.abs(directions).argmax(axis=0), np.arange(len(keep))]
    return (directions * np.sign(top)).astype(np.float32)


def _rotation(dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """A random orthogonal matrix, uniform over rotations and reflections (Mezzadri 2007). -> float64 (d, d)"""
    basis, triangle = np.linalg.qr(rng.standard_normal((dimensions, dimensions)))
    return basis * np.sign(np.diag(triangle))


def fit_projection(weights: sparse.csr_array, dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """IDF and truncated SVD of a sample, folded into one matrix that takes term weights to vectors.

    A random rotation follows the SVD: cosines stay, and no coordinate is large enough to be clipped by `quantise`
    (unrotated, a language that is one singular direction has coordinates near 1).
    float32 (documents, columns)  ->  float32 (columns, dimensions), zero for columns that the sample lacks
    """
    idf = fit_idf(weights)
    known = np.flatnonzero(idf)
    if len(known) == 0:
        raise ValueError(f"no word is in two of the {weights.shape[0]} sampled documents; use a larger sample "
                         "(embed.fit) or another embedder.")
    sample = weights[:, known]
    sample.data *= idf[known[sample.indices]]
    length = np.sqrt(np.asarray(sample.multiply(sample).sum(axis=1)).ravel())
    sample.data /= np.repeat(length, np.diff(sample.indptr)).astype(np.float32)
    directions = _singular_directions(sample, dimensions, rng)
    projection = np.zeros((weights.shape[1], dimensions), np.float32)
    projection[known] = idf[known, None] * (directions @ _rotation(dimensions, rng)[: directions.shape[1]])
    return projection


def project(weights: sparse.csr_array, projection: np.ndarray) -> tuple[np.ndarray, int]:
    """Unit vectors of documents, and how many are zero because they hold no word that the sample knew.

    float32 (documents, columns), (columns, dimensions)  ->  float32 (documents, dimensions), count
    """
    vectors = unit(weights @ projection)
    return vectors, int((~vectors.any(axis=1)).sum())
