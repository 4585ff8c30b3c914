"""Daft: normalise, minhash, bands as a table, rows grouped by band; the groups are joined in Python."""

from __future__ import annotations

import os

import daft
from daft import col
from daft.functions import chunk, minhash, normalize
from rows import BANDS, ROWS, WIDTH, Groups, arguments, files, write_keepers


def main() -> None:
    source, out, _ = arguments()
    table = daft.read_json(files(source))
    text = normalize(col("text"), remove_punct=True, lowercase=True, white_space=True)
    signed = table.select(col("id"), minhash(text, num_hashes=BANDS * ROWS, ngram_size=WIDTH, hash_function="xxhash").alias("minima"))
    bands = signed.select(col("id"), chunk(col("minima"), ROWS).alias("band"))
    numbered = bands.with_column("number", daft.lit(list(range(BANDS)))).explode("band", "number")
    keyed = numbered.select(col("id"), col("number"), col("band").hash().alias("key"))
    shared = keyed.groupby("number", "key").agg(col("id").list_agg().alias("rows")).where(col("rows").list_count() > 1)
    rows = sum(1 for path in files(source) for _ in open(path, "rb"))
    groups = Groups(rows)
    for members in shared.to_pydict()["rows"]:
        first, *others = (int(name[1:]) for name in members)
        for other in others:
            groups.join(first, other)
    keepers = groups.keepers()
    kept = daft.from_pydict({"id": [f"d{row}" for row, keeper in enumerate(keepers) if row == keeper]})
    table.join(kept, on="id").write_json(str(out / "kept"))
    write_keepers(out, keepers)


if __name__ == "__main__":
    main()
    os._exit(0)  # Daft 0.7.26's threads outlive the interpreter: 1 run of 40 died while it shut down, its outputs written
