"""`cuvee dedup` and `cuvee decontaminate` on files: the pipeline's own steps, and outputs in the files' own formats.

A file is a source of its own, named by its place among the sorted base names, so that ties go by base name.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cuvee.config import Decontaminate, Dedup, Eval, Ingest, Recipe, Source
from cuvee.engine.run import Engine, Work
from cuvee.engine.progress import Progress
from cuvee.engine.shard import Table
from cuvee.engine.step import Counts, Job, Task, package_version
from cuvee.engine.store import Output, create, exists, is_local, join, open_arrow, read_bytes, read_json, read_table, sink, write_bytes, write_json, write_table
from cuvee.errors import UsageError
from cuvee.steps import dedup as dedup_step
from cuvee.steps import decontaminate as decontaminate_step
from cuvee.steps import ingest
from cuvee.steps.documents import Shard, shards
from cuvee.steps.inputs import expand, input_file, sha256
from cuvee.steps.kept import write_kept

ANY_LENGTH = 2**62  # a standalone command reads texts of any length

DEDUP_FILE = pa.schema([
    ("file", pa.string()), ("row", pa.int64()), ("source_id", pa.string()), ("id", pa.string()), ("keep", pa.bool_()),
    ("kind", pa.string()), ("kept_by", pa.string()), ("kept_by_file", pa.string()), ("kept_by_row", pa.int64()),
    ("similarity", pa.float64()), ("copies", pa.int64())])

DECONTAMINATE_FILE = pa.schema([
    ("file", pa.string()), ("row", pa.int64()), ("source_id", pa.string()), ("id", pa.string()), ("keep", pa.bool_()),
    ("hits", pa.int64()), ("fraction", pa.float64()), ("items", pa.list_(pa.string())), ("first_start", pa.int64()),
    ("first_end", pa.int64())])


@dataclass(frozen=True)
class File:
    """An input file: its base name, and the source that it is in the work folder."""

    url: str
    name: str
    kind: str
    source: str
    sha256: str


@dataclass(frozen=True)
class Call:
    """What both commands are asked: input files, output folder, and the columns of text and id."""

    files: Sequence[str]
    out: str
    text: str
    id: str | None
    engine: Engine
    progress: Progress


def dedup(call: Call, config: Dedup, priority: Sequence[str]) -> Counts:
    """Deduplicate files. priority: files that win a duplicate, the first most."""
    files = _files(call.files)
    ranks = _priorities(files, priority)
    settings = {"dedup": config.identity(), "priority": ranks}
    recipe = _recipe(call, files, {"dedup": config}, ranks)

    def judge(work: Work, documents: Table) -> Table:
        return dedup_step.run(work, recipe, documents, (), ())

    return _run("dedup", call, files, recipe, settings, judge, dedup_rows, DEDUP_FILE)


def decontaminate(call: Call, config: Decontaminate, evals: Sequence[str], fields: Sequence[str] | None) -> Counts:
    """Remove from files the documents that hold evaluation items of the files `evals`."""
    files = _files(call.files)
    both = sorted({os.path.realpath(path) for path in evals} & {os.path.realpath(file.url) for file in files})
    if both:
        raise UsageError(f"{both[0]} is named both as input and as --evals. Name it once.")
    found = [Eval(name=name, path=url, fields=fields) for url, name in _named(evals, "--evals")]
    settings = {"decontaminate": config.identity(), "fields": fields, "evals": {each.name: sha256(each.path) for each in found}}
    recipe = _recipe(call, files, {"decontaminate": config, "evals": found}, {})

    def judge(work: Work, documents: Table) -> Table:
        verdict = decontaminate_step.run(work, recipe, documents)
        _write_reports(call.out, work)
        return verdict

    return _run("decontaminate", call, files, recipe, settings, judge, decontaminate_rows, DECONTAMINATE_FILE)


def _run(command: str, call: Call, files: Sequence[File], recipe: Recipe, settings: dict[str, Any],
         judge: Callable[[Work, Table], Table], rows: Callable[..., pa.Table], schema: pa.Schema) -> Counts:
    claim = {"command": command, "settings": {**settings, "text": call.text, "id": call.id},
             "inputs": {file.name: file.sha256 for file in files},
             "versions": {name: package_version(name) for name in ("cuvee", "pyarrow", "numpy", "numba", "unicode")}}
    if (done := _claimed(call.out, claim)) is not None:
        call.progress.say(f"{call.out}: done before")
        return done
    work = Work(join(call.out, ".work"), call.engine, call.progress)
    with work.lock():
        documents = ingest.run(work, recipe)
        verdict = judge(work, documents)
        parts = _export(call, files, documents, verdict, rows)
        _concatenate(join(call.out, f"{command}.parquet"), parts, schema)
        faults = _write_quarantine(call.out, work, files)
    counts = _counts(parts, faults)
    write_json(join(call.out, "manifest.json"), {**claim, "complete": True, "counts": counts})
    shutil.rmtree(join(call.out, ".work"))
    call.progress.removed(command, counts["read"], counts["kept"])
    return counts


def _files(paths: Sequence[str]) -> list[File]:
    """Input files in the order given. Two of one base name, or a missing one, is a UsageError."""
    named = _named(paths, "input")
    order = {name: number for number, name in enumerate(sorted(name for _, name in named))}
    files = []
    for url, name in named:
        kind = "parquet" if input_file(url, name, "auto", "").kind == "parquet" else "jsonl"
        files.append(File(url, name, kind, f"f{order[name]:06d}", sha256(url)))
    return files


def _named(paths: Sequence[str], where: str) -> list[tuple[str, str]]:
    named = [(url, os.path.basename(url)) for path in paths for url, _ in expand(path, where)]
    names = [name for _, name in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two of the {where} files are named {twice[0]}; outputs bear base names. Rename one, or run them apart.")
    return named


def _priorities(files: Sequence[File], priority: Sequence[str]) -> dict[str, int]:
    """Base name -> priority: the named files have n, n-1, ... 1."""
    known = {os.path.realpath(file.url): file.name for file in files} | {file.name: file.name for file in files}
    ranks = {}
    for number, path in enumerate(priority):
        name = known.get(os.path.realpath(path)) or known.get(path)
        if name is None:
            raise UsageError(f"--priority {path}: not among the input files ({', '.join(file.name for file in files)[:200]})")
        ranks[name] = len(priority) - number
    return ranks


def _recipe(call: Call, files: Sequence[File], sections: dict[str, Any], ranks: dict[str, int]) -> Recipe:
    sources = [Source(name=file.source, path=file.url, kind=file.kind, text=call.text, id=call.id, license="NOASSERTION",
                      priority=ranks.get(file.name, 0)) for file in files]
    return Recipe(work=join(call.out, ".work"), sources=sources, ingest=Ingest(max_bytes=ANY_LENGTH), **sections)


def _claimed(out: str, claim: dict[str, Any]) -> Counts | None:
    """Mark the folder as this call's. Counts where the same call ended before; an error where another call's results stand."""
    url = join(out, "manifest.json")
    if not is_local(out):
        raise UsageError(f"-o {out}: name a local folder")
    if not exists(url):
        if exists(join(out, "kept")):
            raise UsageError(f"-o {out} holds a folder 'kept' that no manifest explains. Name another folder, or delete it.")
        write_json(url, {**claim, "complete": False})
        return None
    known = read_json(url)
    if {key: known.get(key) for key in claim} != orjson.loads(orjson.dumps(claim)):
        raise UsageError(f"-o {out} holds the results of other inputs or settings. Name another folder, or delete it.")
    return known["counts"] if known["complete"] else None


def _export(call: Call, files: Sequence[File], documents: Table, verdict: Table, rows: Callable[..., pa.Table]) -> list[Counts]:
    """Write kept/NAME and the rows of the table of every file; counts in input order."""
    names = {file.source: file.name for file in files}
    jobs = [Job(call.out, Task(file.name, export_file, {
        "file": file, "shards": [shard for shard in shards(documents, verdict) if shard.source == file.source],
        "rows": rows, "names": names, "documents": dict(documents.files), "text": call.text})) for file in files]
    results = {place: result["counts"] for place, result in call.engine.map(jobs)}
    return [results[place] for place in range(len(files))]


def export_file(out: Output, file: File, shards: Sequence[Shard], rows: Callable[..., pa.Table], names: dict[str, str],
                documents: dict[str, str], text: str) -> Counts:
    table = pa.concat_tables([rows(shard, names, documents) for shard in shards])
    edited = {row: new for shard in shards for row, new in _edited(shard).items()}
    out.table(f".work/rows/{file.source}.parquet", table)
    keep = table["row"].to_numpy()[table["keep"].to_numpy(zero_copy_only=False)]
    write_kept(out, f"kept/{file.name}", file.url, file.kind, keep, edited, text)
    kinds = {}
    if "kind" in table.column_names:
        kinds = {each["values"]: each["counts"] for each in pc.value_counts(table.filter(pc.invert(table["keep"]))["kind"]).to_pylist()}
    return {"part": join(out.folder, f".work/rows/{file.source}.parquet"), "read": len(table), "kept": len(keep), "kinds": kinds}


def _origin(documents_url: str) -> np.ndarray:
    """Raw row number of every row of a documents shard."""
    reader = open_arrow(documents_url.removesuffix(".parquet") + ".origin.arrow")
    return reader.read_all()["row"].to_numpy()


def _edited(shard: Shard) -> dict[int, str]:
    """Raw row -> text after edits, for the rows that a verdict edits."""
    verdict = read_table(shard.verdicts[-1])
    if "edits" not in verdict.column_names or verdict["edits"].null_count == len(verdict):
        return {}
    changed = {row for row, edits in zip(verdict["row"].to_pylist(), verdict["edits"].to_pylist()) if edits}
    texts = shard.read(("text",))
    origin = _origin(shard.documents)
    return {int(origin[row]): text for row, text in zip(texts["row"].to_pylist(), texts["text"].to_pylist()) if row in changed}


def dedup_rows(shard: Shard, names: dict[str, str], documents: dict[str, str]) -> pa.Table:
    """The dedup table of a shard in terms of files and raw rows."""
    table = read_table(shard.verdicts[-1])
    origins = functools.cache(lambda name: _origin(documents[name]))
    keepers = zip(table["kept_by_source"].to_pylist(), table["kept_by_shard"].to_pylist(), table["kept_by_row"].to_pylist())
    pairs = [(names[source], int(origins(f"{source}/{part}")[row])) if source is not None else (None, None)
             for source, part, row in keepers]
    row = pa.array(_origin(shard.documents)[table["row"].to_numpy()])
    columns = [[names[shard.source]] * len(table), row, table["source_id"], table["id"], table["keep"], table["kind"], table["kept_by"],
               [name for name, _ in pairs], pa.array([number for _, number in pairs], pa.int64()), table["similarity"], table["copies"]]
    return pa.table(dict(zip(DEDUP_FILE.names, columns))).cast(DEDUP_FILE)


def decontaminate_rows(shard: Shard, names: dict[str, str], documents: dict[str, str]) -> pa.Table:
    table = read_table(shard.verdicts[-1])
    own = read_table(shard.documents, ["source_id"])["source_id"].take(table["row"])
    row = pa.array(_origin(shard.documents)[table["row"].to_numpy()])
    table = table.append_column("file", pa.array([names[shard.source]] * len(table), pa.string()))
    return table.set_column(0, "row", row).append_column("source_id", own).select(DECONTAMINATE_FILE.names).cast(DECONTAMINATE_FILE)


def _write_reports(out: str, work: Work) -> None:
    """`evals.parquet` and `set_aside.parquet`: item by item, and what was set aside as boilerplate."""
    folder = work.current()["decontaminate.report"]
    write_table(join(out, "evals.parquet"), read_table(folder.file("evals.parquet")).drop_columns(["eval"]))
    write_table(join(out, "set_aside.parquet"), read_table(folder.file("set_aside.parquet")))


def _concatenate(url: str, parts: Sequence[Counts], schema: pa.Schema) -> None:
    with create(url) as file, pq.ParquetWriter(sink(file), schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(read_table(part["part"]))


def _write_quarantine(out: str, work: Work, files: Sequence[File]) -> dict[str, int]:
    """`quarantine.jsonl` of all files in input order; how many faults by reason."""
    folders = work.current()
    lines = [orjson.dumps({**fault, "file": file.name}) + b"\n" for file in files
             for fault in ingest.quarantine(folders[f"ingest/{file.source}"])]
    write_bytes(join(out, "quarantine.jsonl"), b"".join(lines))
    reasons = [orjson.loads(line)["reason"] for line in lines]
    return {reason: reasons.count(reason) for reason in sorted(set(reasons))}


def _counts(parts: Sequence[Counts], faults: dict[str, int]) -> Counts:
    read, kept = sum(part["read"] for part in parts), sum(part["kept"] for part in parts)
    kinds = sorted({kind for part in parts for kind in part["kinds"]})
    return {"read": read, "kept": kept, "removed": read - kept, "quarantined": sum(faults.values()), "reasons": faults,
            "kinds": {kind: sum(part["kinds"].get(kind, 0) for part in parts) for kind in kinds}}
