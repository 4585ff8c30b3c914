"""Export: the mixture for a trainer outside Cuvee, with all that is needed to repeat and to license it.

`json`: `mixture.json`, complete, and the tokenizer. `levanter`: also the training documents of each domain as JSON
lines and a data section with their weights, one for each stage of the stream. Both write `DATACARD.md`. Held-out
documents never stand among the others.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.step import package_version
from cuvee.engine.store import exists, join, open_arrow, read_bytes, read_json, read_table, write_bytes, write_json
from cuvee.errors import DataError, UsageError, nearest
from cuvee.record import positions
from cuvee.steps import finished, stream
from cuvee.steps.documents import Shard

VERSION = 1
FORMATS = ("json", "levanter")


def write(work: Work, recipe: Recipe, format: str, out: str) -> str:
    """Write the newest mixture to folder `out`; where it is."""
    if format not in FORMATS:
        raise UsageError(f"--format {format}: no such format. {nearest(format, FORMATS)}")
    mixture = _complete(work, recipe)
    _claim(out, mixture)
    files = _tokenizer(work, recipe, mixture, out)
    write_json(join(out, "mixture.json"), mixture | {"tokenizer": files})
    if format == "levanter":
        _levanter(work, recipe, mixture, out)
    write_bytes(join(out, "DATACARD.md"), _card(mixture).encode())
    return out


def _complete(work: Work, recipe: Recipe) -> dict[str, Any]:
    """mixture.json with what a trainer and a lawyer ask: rows, documents, licences, sources, fingerprints."""
    described, folder = stream.Stream.open(work.url).description, finished.folder(work, "mix")
    mixture = read_json(folder.file("mixture.json"))
    if described["fingerprints"]["mix"] != folder.fingerprint:
        raise UsageError(f"{work.url}: the mixture is newer than stream.json. Run: cuvee run RECIPE")
    counts = {name: result["counts"] for name, result in finished.folder(work, "tokens").manifest["tasks"].items()}
    domains = [each | {name: counts[each["name"]][name] for name in ("documents", "heldout", "rows", "bytes")} for each in mixture["domains"]]
    current = work.current()
    steps = {place: current[place].fingerprint for place in sorted(current) if "." not in place}
    stages = [{"mixture": each["mixture"], "tokens": each["rows"] * described["seq_len"], "weights": each["weights"]} for each in described["stages"]]
    return mixture | {"domains": domains, "stages": stages, "sources": _sources(work, recipe), "seed": recipe.seed, "seq_len": described["seq_len"],
                      "end": described["end"], "vocab": described["vocab"], "steps": steps, "cuvee": package_version("cuvee")}


def _sources(work: Work, recipe: Recipe) -> list[dict[str, Any]]:
    """Per source its documents, of these kept, and the licences of the kept ones' copies."""
    dedup, documents, found = finished.table(work, recipe, "dedup"), finished.table(work, recipe, "documents"), []
    for source in recipe.sources:
        licenses: Counter[str] = Counter()
        read = 0
        for shard in dedup.of_source(source.name):
            kept = read_table(dedup.files[shard], ["keep", "licenses"])
            sets = kept.filter(kept["keep"])["licenses"].to_pylist()
            licenses.update(", ".join(each) for each in sets)
        read = sum(len(read_table(documents.files[shard], ["source"])) for shard in documents.of_source(source.name))
        found.append({"name": source.name, "path": source.path, "license": source.license or f"column {source.license_column}",
                      "documents": read, "kept": licenses.total(), "licenses": dict(sorted(licenses.items()))})
    return found


def _claim(out: str, mixture: Mapping[str, Any]) -> None:
    """A folder that holds something else is not written into."""
    url = join(out, "mixture.json")
    if exists(url):
        if read_json(url).get("steps") != mixture["steps"]:
            raise UsageError(f"{out} holds the export of another mixture. Name another folder, or delete it.")
    elif os.path.isdir(out) and os.listdir(out):
        raise UsageError(f"{out} is not empty. Name another folder, or delete it.")


def _tokenizer(work: Work, recipe: Recipe, mixture: Mapping[str, Any], out: str) -> str:
    """A folder that `transformers` reads as a fast tokenizer; its name."""
    data = read_bytes(stream.Stream.open(work.url).tokenizer)
    write_bytes(join(out, "tokenizer", "tokenizer.json"), data)
    write_json(join(out, "tokenizer", "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": recipe.tokenizer.end, "bos_token": recipe.tokenizer.end,
        "model_max_length": mixture["seq_len"]})
    return "tokenizer"


def _levanter(work: Work, recipe: Recipe, mixture: Mapping[str, Any], out: str) -> None:
    """`levanter.yaml`, the `data` section of a Levanter configuration, and the documents that it names.

    Levanter counts stages in steps, and a step is as long as its trainer's batch: each stage has a file of its own,
    `levanter.stage1.yaml` and so on. Keys as in Levanter's docs/guides/Training-Data-Guide.md: configs, train_weights, tokenizer, cache_dir.
    """
    held = _heldout(work, [each["name"] for each in mixture["domains"]])
    domains = finished.table(work, recipe, "quality")
    files: dict[str, dict[str, list[str]]] = {each["name"]: {"train_urls": [], "validation_urls": []} for each in mixture["domains"]}
    for shard in finished.kept(work, recipe):
        for name, kind, rows in _split(shard, domains.files[shard.name], held):
            url = os.path.abspath(join(out, kind.removesuffix("_urls"), name, f"{shard.name.replace('/', '.')}.jsonl.gz"))
            write_bytes(url, gzip.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows.to_pylist()), 6, mtime=0))
            files[name][kind].append(url)
    configs = {name: {kind: urls for kind, urls in each.items() if urls} for name, each in files.items()}
    for number, stage in enumerate(mixture["stages"], 1):
        data = {"configs": configs, "train_weights": stage["weights"], "tokenizer": os.path.abspath(join(out, "tokenizer")),
                "cache_dir": os.path.abspath(join(out, "cache"))}
        name = "levanter.yaml" if len(mixture["stages"]) == 1 else f"levanter.stage{number}.yaml"
        write_bytes(join(out, name), yaml.safe_dump({"data": data}, sort_keys=False, allow_unicode=True, width=140).encode())


def _heldout(work: Work, names: Sequence[str]) -> dict[str, set[str]]:
    """Ids that are held out of each domain."""
    folder = finished.folder(work, "tokens")
    return {name: set(open_arrow(folder.file(f"{name}.heldout.arrow")).read_all()["id"].to_pylist()) for name in names}


def _split(shard: Shard, quality: str, held: Mapping[str, set[str]]) -> Iterator[tuple[str, str, pa.Table]]:
    """A shard's kept documents by domain: domain, train_urls or validation_urls, rows of text, id, license, source."""
    documents = shard.read(("text", "license", "source", "url"))
    judged = read_table(quality, ["row", "id", "domain"])
    place = positions(judged, documents["row"], documents["id"], quality)
    if (place < 0).any():
        raise DataError(f"{quality}: no domain for {int((place < 0).sum())} kept rows of {shard.name}. Run the recipe again.")
    domains = judged["domain"].take(pa.array(place)).to_numpy(zero_copy_only=False)
    for name in (name for name in np.unique(domains) if name in held):  # a domain too small for one row is in no mixture
        mine = documents.filter(pa.array(domains == name)).select(["id", "text", "source", "license", "url"])
        out = pc.is_in(mine["id"], value_set=pa.array(sorted(held[name]), pa.string()))
        for kind, rows in (("train_urls", mine.filter(pc.invert(out))), ("validation_urls", mine.filter(out))):
            if len(rows):
                yield name, kind, rows


def _card(mixture: Mapping[str, Any]) -> str:
    """DATACARD.md: what is in the data, from where, under which licences, how it is weighed."""
    sources, domains = mixture["sources"], mixture["domains"]
    licenses: Counter[str] = Counter()
    for each in sources:
        licenses.update(each["licenses"])
    stages = [[number, each["mixture"], f"{each['tokens']:,}"] for number, each in enumerate(mixture["stages"], 1)]
    return "\n".join([
        "# Data card", "",
        f"Made by Cuvee {mixture['cuvee']}, seed {mixture['seed']}, for a training run of {mixture['budget']:,} tokens. "
        f"{sum(each['documents'] for each in domains):,} documents in {len(domains)} domains train; "
        f"{sum(each['heldout'] for each in domains):,} are held out.", "",
        "## Sources", "", *_rows(["source", "documents", "kept", "licence as declared", "path"],
                                 [[each["name"], f"{each['documents']:,}", f"{each['kept']:,}", each["license"], each["path"]] for each in sources]),
        "", "## Licences", "",
        "A kept document stands for its copies; where these had several licences, all are named.", "",
        *_rows(["licences", "documents kept"], [[name, f"{count:,}"] for name, count in sorted(licenses.items())]), "",
        "## Mixture", "", *_rows(["domain", "documents", "tokens", "weight", "epochs", "natural share"], [
            [each["name"], f"{each['documents']:,}", f"{each['tokens']:,}", f"{each['weight']:.4%}", f"{each['epochs']:.2f}",
             f"{each['natural']:.4%}"] for each in domains]), "",
        "## Stages", "", *_rows(["stage", "mixture", "tokens"], stages), "",
        "## Fingerprints", "", *_rows(["step", "sha256"], [[place, value] for place, value in mixture["steps"].items()]), ""])


def _rows(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(str(value).replace("|", "\\|").replace("\n", " ") for value in line) + " |" for line in lines]
