"""datatrove's filter on 13-grams of records, questions among them (by default it looks for 12-grams of answers).

`python SCRIPT EVALS_FOLDER DOCUMENTS_FOLDER OUT RANDOM`: OUT gets a line `FILE ROW` for each row that it removes; prints
MB of text a CPU second. RANDOM hashes are added to the index. Its own indexer needs lighteval, so the hashes are made here
with the filter's tokeniser, normalisation and hash.
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np
from datatrove.data import Document
from datatrove.pipeline.decont import NGramsDecontConfig, NGramsDecontFilter
from datatrove.utils.text import ngrams, simplify_text
from items import measure, read, records

WIDTH = 13


def main() -> None:
    evals, source, out, random = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        found = NGramsDecontFilter(folder, config=NGramsDecontConfig(n_grams=WIDTH))
        words = (found.tokenizer.word_tokenize(simplify_text(text, found.config.norm_config)) for text in records(evals))
        hashes = {found.hash_func(" ".join(gram)) for each in words for gram in ngrams(each, WIDTH)}
        extra = np.random.default_rng(0).integers(0, 2**64, int(random), np.uint64)
        np.concatenate([np.array(sorted(hashes), np.uint64), extra]).tofile(f"{folder}/planted.index.hashes")
        found.load_index_hashes()
    measure(read(source), lambda text: found.filter(Document(text=text, id="")) is not True, out)


if __name__ == "__main__":
    main()
