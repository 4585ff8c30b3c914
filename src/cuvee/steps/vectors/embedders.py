"""What turns texts into vectors: the lexical embedder, which is offline, or a sentence-transformers model."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import xxhash
from scipy import sparse

from cuvee.config import Embed
from cuvee.engine.store import exists, read_bytes
from cuvee.errors import UsageError, missing_extra
from cuvee.kernels.text import NFC, buffers, nfc
from cuvee.kernels.vectors import project, term_weights, unit
from cuvee.kernels.words import tokenize
from cuvee.steps.vectors.arrays import load

COLUMNS = 2**17  # hashed words of the lexical embedder; 100,000 documents hold some 10^5 to 10^6 distinct ones


class Embedder(Protocol):
    """Small enough to be sent to a worker, which loads what it needs on first use."""

    @property
    def dimensions(self) -> int: ...

    @property
    def uses(self) -> tuple[str, ...]:
        """Packages whose version shapes the vectors."""
        ...

    def identity(self) -> dict[str, Any]:
        """All else that shapes the vectors, as JSON values, never a path alone."""
        ...

    def embed(self, texts: pa.Array) -> np.ndarray:
        """Unit vectors, or zeros for a text that the embedder knows nothing of. -> float32 (texts, dimensions)"""
        ...


def weights_of(texts: pa.Array) -> sparse.csr_array:
    """Term weights of words and symbols. -> float32 (texts, COLUMNS)"""
    buffer, offsets = buffers(nfc(texts))
    tokens = tokenize(buffer, offsets)
    return term_weights(tokens.hashes, tokens.offsets, COLUMNS)


@dataclass(frozen=True)
class Lexical:
    """Hashed TF-IDF and SVD, folded into one matrix. projection: URL of float32 (COLUMNS, dimensions), .npy"""

    projection: str
    checksum: str  # xxh3-128 of that file
    dimensions: int
    uses = ("numba", "numpy", "scipy")

    @classmethod
    def pinned(cls, url: str) -> Lexical:
        """From a projection that an earlier `embed.fit` wrote."""
        if not exists(url):
            raise UsageError(f"embed.fit: no such file: {url}. Name the projection.npy of an earlier embed.fit, or remove the key.")
        checksum = xxhash.xxh3_128_hexdigest(read_bytes(url))
        try:
            array = load(url)
        except (ValueError, EOFError) as error:
            raise UsageError(f"embed.fit: {url} is no .npy file: {error}. Name the projection.npy of an earlier embed.fit.") from None
        if array.ndim != 2 or len(array) != COLUMNS or array.dtype != np.float32:
            raise UsageError(f"embed.fit: {url} holds {array.dtype} {array.shape}; a projection is float32 ({COLUMNS}, dimensions).")
        return cls(url, checksum, array.shape[1])

    def identity(self) -> dict[str, Any]:
        return {"model": "lexical", "projection": self.checksum, "nfc": NFC}

    def embed(self, texts: pa.Array) -> np.ndarray:
        return project(weights_of(texts), _projection(self.projection))[0]


@functools.lru_cache(maxsize=1)
def _projection(url: str) -> np.ndarray:
    return load(url)


@dataclass(frozen=True)
class SentenceModel:
    """A sentence-transformers model by its hub name or folder; HF_HUB_OFFLINE and the hub's cache are respected.

    revision: commit on the hub, or digest of a local folder's files.
    """

    name: str
    revision: str
    uses = ("numpy", "sentence-transformers", "torch", "transformers")

    @classmethod
    def find(cls, name: str, revision: str | None) -> SentenceModel:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise missing_extra("sentence-transformers", "embed")
        return cls(name, _digest(name) if os.path.isdir(name) else _commit(name, revision))

    @property
    def dimensions(self) -> int:
        return _model(self.name, self.revision).get_sentence_embedding_dimension()

    def identity(self) -> dict[str, Any]:
        return {"model": os.path.basename(self.name) if os.path.isdir(self.name) else self.name, "revision": self.revision}

    def embed(self, texts: pa.Array) -> np.ndarray:
        return unit(_model(self.name, self.revision).encode(texts.to_pylist(), convert_to_numpy=True, show_progress_bar=False))


@functools.lru_cache(maxsize=1)
def _model(name: str, revision: str) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)  # a matrix product differs bitwise with the number of threads
    return SentenceTransformer(name, revision=None if os.path.isdir(name) else revision)


def _commit(name: str, revision: str | None) -> str:
    """The commit that a hub name stands for, as the hub or, offline, its local cache knows it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return os.path.basename(snapshot_download(name, revision=revision, allow_patterns=["config.json"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError, ValueError) as error:
        raise UsageError(f"embed.model: neither a folder nor a model that the hub or its local cache has: {name} "
                         f"({type(error).__name__}). Write `lexical`, a folder, or the name of a model that can be reached.") from None


def _digest(folder: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names):
        digest.update(os.path.relpath(path, folder).encode() + b"\0")
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def fixed(config: Embed) -> Embedder | None:
    """The embedder that a recipe names; None where it has to be fitted first."""
    if config.model != "lexical":
        return SentenceModel.find(config.model, config.revision)
    return Lexical.pinned(config.fit) if config.fit is not None else None

