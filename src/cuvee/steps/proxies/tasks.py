"""Tasks: what every proxy is scored on, encoded once.

A task is an evaluation with a `continuation` template, or the held-out documents of a domain, `heldout/NAME`. The step
leaves `items.arrow` (TASK_ITEMS) and `tasks.json`: name, kind, items and UTF-8 bytes of each task, and of how many records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cuvee.config import Eval, Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder
from cuvee.engine.step import Counts, Step, Task
from cuvee.engine.store import Output, open_arrow, read_json
from cuvee.errors import DataError, UsageError
from cuvee.kernels.text import hash64_many
from cuvee.steps.overlap import evals
from cuvee.steps.reading import templates
from cuvee.steps.store import Domain, TokenStore
from cuvee.steps.tokenize import load

VERSION = 2
LEAST_HELDOUT = 4       # documents a domain, whatever swarm.eval_share says
TRAINED_OVER_READ = 3   # cost of training on a token over reading it: forward and backward pass against forward alone
READINGS = 2            # at half of a run's tokens and at its end
CUT = "\ufffd"          # what a character cut in half decodes to

TASK_ITEMS = pa.schema([
    ("task", pa.int32()),                        # place in tasks.json
    ("context", pa.large_list(pa.int32())),      # tokens; begins with the end mark
    ("continuation", pa.large_list(pa.int32())),  # tokens that are scored
    ("bytes", pa.int64())])                      # UTF-8 bytes that the continuation encodes


class Item(NamedTuple):
    context: Sequence[int]
    continuation: Sequence[int]
    bytes: int


class Encoded(NamedTuple):
    """A task's items, and how many records they were chosen from; of evaluations, only those that give a continuation."""

    items: list[Item]
    records: int


def run(work: Work, recipe: Recipe, tokens: TokenStore) -> Folder:
    """Encode evaluation records and cut held-out documents to one window each."""
    chosen = [each for each in recipe.evals if _is_task(each)]
    files = [file for each in chosen for file in evals.files_of(each)]
    domains = [domain for domain in tokens.domains if domain.heldout]
    if not askable(recipe, tokens):
        raise DataError("nothing to score proxies on: no evaluation has `continuation`, and no domain is large enough (160 documents) "
                        "to hold 16 of them out. Add a continuation template to an evaluation, or use fewer topics.")
    documents = heldout_documents(recipe, len(domains))
    config = {"evals": [each.model_dump(include={"name", "context", "continuation"}) for each in chosen],
              "task_items": recipe.swarm.task_items, "documents": documents}
    inputs = (tokens.fingerprint, *(f"{file.eval.name} {file.name} {file.sha256}" for file in files))
    args = {"files": tuple(files), "domains": tuple(domains), "tokens": tokens, "task_items": recipe.swarm.task_items, "documents": documents}
    folder = work.do(Step("tasks", VERSION, config, inputs, ("orjson", "tokenizers")), [Task("tasks", encode_tasks, args)])
    silent = [domain.name for domain in tokens.domains if not domain.heldout]
    if silent:
        work.progress.say(f"tasks: no held-out documents, and so no task, for {len(silent)} small domains: {', '.join(silent[:10])}")
    return folder


def askable(recipe: Recipe, tokens: TokenStore) -> bool:
    """Whether there is anything to score a proxy on."""
    return any(_is_task(each) for each in recipe.evals) or any(domain.heldout for domain in tokens.domains)


def heldout_documents(recipe: Recipe, domains: int) -> int:
    """Held-out documents that are read of each domain, so that together they cost at most `eval_share` of a run."""
    config = recipe.swarm
    affordable = config.eval_share * TRAINED_OVER_READ * recipe.budget.proxy / (READINGS * max(domains, 1) * recipe.tokenize.seq_len)
    return int(min(config.heldout_items, max(LEAST_HELDOUT, affordable)))


def _is_task(each: Eval) -> bool:
    if each.context is not None and each.continuation is None:
        raise UsageError(f"evaluation {each.name}: `context` without `continuation`. Add the template of the gold answer, "
                         "such as continuation: \"{answer}\".")
    return each.continuation is not None


def encode_tasks(out: Output, files: Sequence[evals.File], domains: Sequence[Domain], tokens: TokenStore, task_items: int,
                 documents: int) -> Counts:
    tokenizer = load(tokens.tokenizer)
    by_eval: dict[str, list[evals.File]] = {}
    for file in files:
        by_eval.setdefault(file.eval.name, []).append(file)
    found = [(name, "eval", _records(mine, tokenizer, tokens.end, task_items)) for name, mine in by_eval.items()]
    found += [(f"heldout/{domain.name}", "heldout", _heldout(domain, tokenizer, tokens, documents)) for domain in domains]
    columns = [(number, *item) for number, (_, _, task) in enumerate(found) for item in task.items]
    table = pa.table([pa.array(column, field.type) for column, field in zip(zip(*columns), TASK_ITEMS)], schema=TASK_ITEMS)
    out.arrow("items.arrow", table.combine_chunks().to_batches(), TASK_ITEMS)
    out.json("tasks.json", [{"name": name, "kind": kind, "items": len(task.items), "bytes": sum(item.bytes for item in task.items),
                             "records": task.records} for name, kind, task in found])
    scored = sum(len(item.continuation) for _, _, task in found for item in task.items)
    return {"tasks": len(found), "items": len(table), "scored_tokens": scored}


def _records(files: Sequence[evals.File], tokenizer: Any, end: int, most: int) -> Encoded:
    """The `most` records of an evaluation that come first by hash. A record without text in a named field takes no part."""
    each = files[0].eval
    rendered = [_rendered(record, each) for file in files for batch in evals.batches(file) for record in batch.records]
    texts = [pair for pair in rendered if pair is not None]
    hashes = hash64_many([context + "\0" + continuation for context, continuation in texts], "task")
    chosen = np.sort(np.argsort(hashes, kind="stable")[:most])
    items = [item for place in chosen if (item := _item(tokenizer, *texts[place], end)).continuation]
    if not items:
        wanted = ", ".join(dict.fromkeys([*templates.columns(each.context or each.continuation), *templates.columns(each.continuation)]))
        raise DataError(f"evaluation {each.name}, {files[0].url}: none of {len(rendered)} records gives a continuation. Its templates need "
                        f"the columns {wanted}, each a string or a number and not all empty; in {{a[b]}}, b is a number from 0 or a letter.")
    return Encoded(items, len(texts))


def _rendered(record: Mapping[str, Any], each: Eval) -> tuple[str, str] | None:
    """Context and continuation of a record; None where a field is missing or the continuation is empty."""
    context = "" if each.context is None else templates.render(each.context, record)
    continuation = templates.render(each.continuation, record)
    return (context, continuation) if context is not None and continuation else None


def _item(tokenizer: Any, context: str, continuation: str, end: int) -> Item:
    """Tokens of both. Where the tokens of the context do not begin those of the whole text, the two are encoded apart."""
    given, whole = (tokenizer.encode(text, add_special_tokens=False).ids for text in (context, context + continuation))
    apart = whole[:len(given)] != given
    scored = tokenizer.encode(continuation, add_special_tokens=False).ids if apart else whole[len(given):]
    return Item([end, *given], scored, len(continuation.encode()))


def _heldout(domain: Domain, tokenizer: Any, tokens: TokenStore, most: int) -> Encoded:
    """The beginnings of a domain's held-out documents, as much of each as a proxy reads at once."""
    table = domain.load_heldout()
    order = np.argsort(hash64_many(table["id"].to_pylist(), "task"), kind="stable")
    rows = table.take(pa.array(np.sort(order[:most]))).to_pylist()
    pieces = [_beginning(tokenizer, row["tokens"], row["bytes"], tokens.seq_len) for row in rows if row["tokens"]]
    return Encoded([Item([tokens.end], *piece) for piece in pieces], len(table))


def _beginning(tokenizer: Any, ids: list[int], size: int, room: int) -> tuple[list[int], int]:
    """At most `room` tokens of a document, not cut inside a character, and the UTF-8 bytes that they encode."""
    if len(ids) <= room:
        return ids, size
    decoded: Iterator[tuple[int, str]] = ((count, tokenizer.decode(ids[:count], skip_special_tokens=False)) for count in range(room, 0, -1))
    count, text = next(((count, text) for count, text in decoded if not text.endswith(CUT)), (room, tokenizer.decode(ids[:room])))
    return ids[:count], len(text.encode())


def score(params: Any, config: Any, folder: str) -> dict[str, float]:
    """Bits per byte of a trained proxy on every task. folder: URL of this step's folder."""
    from cuvee.proxy.evaluate import bits_per_byte, continuation_bits

    items = open_arrow(f"{folder}/items.arrow").read_all()
    lists = [items[name].combine_chunks() for name in ("context", "continuation")]
    bits = continuation_bits(params, config, *[[each.values.to_numpy() for each in column] for column in lists])
    task, sizes = items["task"].to_numpy(), items["bytes"].to_numpy()
    return {each["name"]: bits_per_byte(bits[task == number], sizes[task == number])
            for number, each in enumerate(read_json(f"{folder}/tasks.json"))}
