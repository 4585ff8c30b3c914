"""`cuvee dedup` and `cuvee decontaminate` on files: the pipeline's own steps, and outputs in the files' own formats.

A file is a source of its own, named by its place among the sorted base names, so that ties go by base name.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from cuvee.config import Decontaminate, Dedup, Eval, Ingest, Recipe, Source
from cuvee.engine.local import LocalEngine
from cuvee.engine.progress import Progress, removal
from cuvee.engine.run import Engine, Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.step import Counts, Job, Task, package_version
from cuvee.engine.store import create, exists, is_local, join, read_json, read_table, sink, write_bytes, write_json, write_table
from cuvee.errors import DataError, UsageError
from cuvee.kernels.minhash import sign
from cuvee.report import pick, standalone_page
from cuvee.report.facts import Example
from cuvee.steps import decontaminate as decontaminate_step
from cuvee.steps import dedup as dedup_step
from cuvee.steps import ingest
from cuvee.steps.documents import shards
from cuvee.steps.outputs import DECONTAMINATE_FILE, DEDUP_FILE, File, Origins, Rows, decontaminate_rows, dedup_rows, export_file
from cuvee.steps.reading.inputs import Identities, check_columns, expand, input_file, sha256, template_fields

ANY_LENGTH = 10**18  # bytes, the largest count there is: a standalone command reads texts of any length
THREADS = 500_000_000  # bytes of input files up to which threads are faster than processes
PACKAGES = ("cuvee", "pyarrow", "numpy", "numba", "unicode")  # whose versions shape the outputs

Judge = Callable[[Work, Table], tuple[Table, list[Example]]]  # documents -> verdicts, and some of them to show


@dataclass(frozen=True)
class Call:
    """What both commands are asked: input files, output folder, and the columns of text and id."""

    files: Sequence[str]
    out: str
    text: str
    id: str | None
    engine: Engine
    progress: Progress


@dataclass(frozen=True)
class Command:
    """A command's name, which is its table's too, and how a shard gives rows of that table."""

    name: str
    schema: pa.Schema
    rows: Rows


def dedup(call: Call, config: Dedup, priority: Sequence[str]) -> Counts:
    """Deduplicate files. priority: files that win a duplicate, the first most."""
    files = _files(call)
    call = _beside(call, files)
    if config.spans != "off":
        _check_one_column(call, "--spans")
    ranks = _priorities(files, priority)
    recipe = _recipe(call, files, {"dedup": config}, ranks)

    def judge(work: Work, documents: Table) -> tuple[Table, list[Example]]:
        verdict = dedup_step.run(work, recipe, documents, (), ())
        return verdict, pick.duplicates(verdict, documents)[0]

    settings = {"dedup": config.identity(), "priority": ranks}
    return _run(Command("dedup", DEDUP_FILE, dedup_rows), call, files, recipe, settings, judge)


def decontaminate(call: Call, config: Decontaminate, evals: Sequence[str], fields: Sequence[str] | None) -> Counts:
    """Remove from files the documents that hold evaluation items of the files `evals`."""
    files = _files(call)
    call = _beside(call, files)
    named = _named(evals, "--evals")
    both = sorted({os.path.realpath(url) for url, _ in named} & {os.path.realpath(file.input.url) for file in files})
    if both:
        raise UsageError(f"{both[0]} is named both as input and as --evals. Name it once.")
    if config.rule == "cut":
        _check_one_column(call, "--rule cut")
    found = [Eval(name=name, path=url, fields=fields) for url, name in named]
    recipe = _recipe(call, files, {"decontaminate": config, "evals": found}, {})

    def judge(work: Work, documents: Table) -> tuple[Table, list[Example]]:
        verdict = decontaminate_step.run(work, recipe, documents)
        _write_reports(call.out, work.current()["decontaminate.report"])
        return verdict, pick.contaminated(verdict, documents, work.current()["decontaminate.features"].file("records.parquet"))

    settings = {"decontaminate": config.identity(), "fields": fields, "evals": {name: sha256(url) for url, name in named}}
    return _run(Command("decontaminate", DECONTAMINATE_FILE, decontaminate_rows), call, files, recipe, settings, judge)


def _check_one_column(call: Call, option: str) -> None:
    if template_fields(call.text) != [call.text]:
        raise UsageError(f"{option} with --text '{call.text}': a span of several columns cannot be cut. Name one column, or leave {option} out.")


def _run(command: Command, call: Call, files: Sequence[File], recipe: Recipe, settings: dict[str, Any], judge: Judge) -> Counts:
    claim = {"command": command.name, "settings": {**settings, "text": call.text, "id": call.id},
             "inputs": {file.input.name: file.input.identity for file in files},
             "versions": {name: package_version(name) for name in PACKAGES}}
    if (done := _claimed(call.out, claim)) is not None:
        call.progress.say(f"{call.out}: done before")
        shutil.rmtree(_work(call), ignore_errors=True)  # a call that was killed at its very end left it
        return done
    work = Work(recipe.work, call.engine, call.progress, scratch=True)
    with work.lock():
        folders = ingest.read(work, recipe)
        faults = _write_quarantine(call, files, folders)
        documents = Table.of("documents", list(folders.values()))
        verdict, examples = judge(work, documents)
        origins = Origins({file.source: file.input.name for file in files}, documents.files)
        parts = _export(command, call, files, origins, documents, verdict)
        _concatenate(join(call.out, f"{command.name}.parquet"), [join(work.url, "rows", f"{file.source}.parquet") for file in files], command.schema)
        counts = _counts(parts, faults)
        _write_page(call.out, command.name, counts, claim["settings"], [_renamed(example, origins) for example in examples], parts)
        write_json(join(call.out, "manifest.json"), {**claim, "complete": True, "counts": counts})
    shutil.rmtree(work.url)
    if not counts["edited"]:
        call.progress.removed(command.name, counts["read"], counts["kept"])
    return counts


def _files(call: Call) -> list[File]:
    """Input files in the order given. Two of one base name, or a missing one, is a UsageError."""
    if not is_local(call.out) or os.path.isfile(call.out):
        raise UsageError(f"-o {call.out}: name a local folder")
    template_fields(call.text)
    named = _named(call.files, "input")
    order = {name: number for number, name in enumerate(sorted(name for _, name in named))}
    known = Identities(_work(call))
    with ThreadPoolExecutor(call.engine.workers + 1) as pool:
        pool.submit(sign, pa.array([""], pa.large_string()))  # numba loads its registries, .2 s, while files are hashed
        identities = list(pool.map(known.of, [url for url, _ in named]))
    found = [input_file(url, name, "auto", identity) for (url, name), identity in zip(named, identities)]
    return [File(each if each.kind == "parquet" else dataclasses.replace(each, kind="jsonl"), f"f{order[each.name]:06d}") for each in found]


def _beside(call: Call, files: Sequence[File]) -> Call:
    """The same call on threads where the files are small: a worker process costs about a second of CPU to start."""
    if isinstance(call.engine, LocalEngine) and sum(file.input.size for file in files) < THREADS:
        return dataclasses.replace(call, engine=LocalEngine(call.engine.workers, threads=True))
    return call


def _work(call: Call) -> str:
    return join(call.out, ".work")


def _named(paths: Sequence[str], where: str) -> list[tuple[str, str]]:
    """(URL, base name) of files; two of one base name are a UsageError."""
    named = [(url, os.path.basename(url)) for path in paths for url, _ in expand(path, where)]
    names = [name for _, name in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two of the {where} files are named {twice[0]}; outputs bear base names. Rename one, or run them apart.")
    return named


def _priorities(files: Sequence[File], priority: Sequence[str]) -> dict[str, int]:
    """Base name -> priority: n, n - 1, ... 1 for the named files."""
    known = {os.path.realpath(file.input.url): file.input.name for file in files} | {file.input.name: file.input.name for file in files}
    ranks: dict[str, int] = {}
    for number, path in enumerate(priority):
        name = known.get(os.path.realpath(path)) or known.get(path)
        if name is None:
            raise UsageError(f"--priority {path}: not among the input files ({', '.join(file.input.name for file in files)[:200]})")
        ranks.setdefault(name, len(priority) - number)
    return ranks


def _recipe(call: Call, files: Sequence[File], sections: dict[str, Any], ranks: Mapping[str, int]) -> Recipe:
    """A recipe of these files; a Parquet file without a named column is a UsageError."""
    sources = [Source(name=file.source, path=file.input.url, kind=file.input.kind, text=call.text, id=call.id, license="NOASSERTION",
                      priority=ranks.get(file.input.name, 0)) for file in files]
    for file, source in zip(files, sources):
        if file.input.kind == "parquet":
            check_columns(file.input, source)
    return Recipe(work=_work(call), sources=sources, ingest=Ingest(max_bytes=ANY_LENGTH, meta=False), **sections)


def _claimed(out: str, claim: dict[str, Any]) -> Counts | None:
    """Mark the folder as this call's. Counts where the same call ended before; an error where another call's results stand."""
    url = join(out, "manifest.json")
    known = _manifest(url) if exists(url) else {}
    same = {key: known.get(key) for key in claim} == orjson.loads(orjson.dumps(claim))
    if not same and (known.get("complete") or exists(join(out, "kept"))):
        raise UsageError(f"-o {out} holds the results of other inputs or settings. Name another folder, or delete it.")
    if known.get("complete"):
        return known["counts"]
    write_json(url, {**claim, "complete": False})
    return None


def _manifest(url: str) -> dict[str, Any]:
    try:
        known = read_json(url)
    except ValueError:
        known = None
    if not isinstance(known, dict) or "command" not in known:
        raise UsageError(f"{url} is there, and no command of Cuvee wrote it. Name another folder.")
    return known


def _export(command: Command, call: Call, files: Sequence[File], origins: Origins, documents: Table, verdict: Table) -> list[Counts]:
    """Write kept/NAME and the rows of the table of every file; counts in input order."""
    jobs = [Job(call.out, Task(file.input.name, export_file, {
        "file": file, "shards": [shard for shard in shards(documents, verdict) if shard.source == file.source],
        "rows": command.rows, "origins": origins, "text": call.text})) for file in files]
    results: dict[int, Counts] = {}
    with call.progress.step("kept", len(jobs), 0) as bar:
        for place, result in call.engine.map(jobs):
            results[place] = result["counts"]
            bar.advance(result["counts"])
    return [results[place] for place in range(len(files))]


def _write_reports(out: str, folder: Folder) -> None:
    """`evals.parquet` and `set_aside.parquet`: item by item, and what was set aside as boilerplate."""
    write_table(join(out, "evals.parquet"), read_table(folder.file("evals.parquet")).drop_columns(["eval"]))
    write_table(join(out, "set_aside.parquet"), read_table(folder.file("set_aside.parquet")))


def _concatenate(url: str, parts: Sequence[str], schema: pa.Schema) -> None:
    with create(url) as file, pq.ParquetWriter(sink(file), schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(read_table(part))


def _write_quarantine(call: Call, files: Sequence[File], folders: Mapping[str, Folder]) -> dict[str, int]:
    """`quarantine.jsonl` of all files in input order, and what there is to say of it; how many faults by reason."""
    for file in files:
        if (fault := ingest.unreadable(folders[file.source])) is not None:
            raise DataError(f"{file.input.url}: no row could be read. First: row {fault['row']}: {fault['reason']}: {fault['detail']}")
        if not folders[file.source].counts["read"]:
            call.progress.say(f"warning: {file.input.url} holds no row")
    faults = [{**fault, "file": file.input.name} for file in files for fault in ingest.quarantine(folders[file.source])]
    url = join(call.out, "quarantine.jsonl")
    write_bytes(url, b"".join(orjson.dumps(fault) + b"\n" for fault in faults))
    reasons = [fault["reason"] for fault in faults]
    found = {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    if found:
        call.progress.say(f"{len(faults):,} rows quarantined ({', '.join(f'{count:,} {reason}' for reason, count in found.items())}); see {url}")
    return found


def _write_page(out: str, command: str, counts: Counts, settings: Mapping[str, Any], examples: Sequence[Example], parts: Sequence[Counts]) -> None:
    warning = removal(command, counts["read"], counts["kept"])
    write_bytes(join(out, "report.html"), standalone_page(command, counts, settings, examples, [warning] if warning else [], parts).encode())


def _counts(parts: Sequence[Counts], faults: dict[str, int]) -> Counts:
    read, kept = sum(part["read"] for part in parts), sum(part["kept"] for part in parts)
    kinds = sorted({kind for part in parts for kind in part["kinds"]})
    return {"read": read, "kept": kept, "removed": read - kept, "edited": sum(part["edited"] for part in parts), "quarantined": sum(faults.values()), "reasons": faults,
            "kinds": {kind: sum(part["kinds"].get(kind, 0) for part in parts) for kind in kinds}}


def _renamed(example: Example, origins: Origins) -> Example:
    """The example with `file:row` where it names a row of a documents shard."""
    changed = {}
    for key in ("removed_name", "kept_name"):
        shard, _, row = example[key].rpartition(":")
        if shard in origins.documents:
            changed[key] = f"{origins.names[shard.split('/')[0]]}:{origins.rows(shard)[int(row)]}"
    return {**example, **changed}
