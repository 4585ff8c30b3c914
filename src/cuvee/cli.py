"""The command line: verbs and their options; what they do stands in pipeline.py, standalone.py, tabular.py and tabular_mix.py."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from cuvee.errors import CuveeError, UsageError

if TYPE_CHECKING:
    from cuvee.engine.run import Engine

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
                  help="From one recipe file, many raw text datasets become a pre-training mixture that can be trusted.")

RecipePath = Annotated[str, typer.Argument(metavar="RECIPE", help="a recipe file (YAML)")]
Workers = Annotated[Optional[int], typer.Option(help="processes; all cores by default")]  # noqa: UP007, UP045 - typer reads it
EngineName = Annotated[str, typer.Option("--engine", metavar="local|ray[:ADDRESS]", help="where tasks run")]
Overrides = Annotated[list[str], typer.Option("--set", metavar="a.b=c", help="override a key of the recipe; repeat for more")]
Sample = Annotated[Optional[str], typer.Option(metavar="SHARE", help="whole recipe on a share of the rows, such as 0.1%")]  # noqa: UP007, UP045
Out = Annotated[str, typer.Option("-o", "--out", metavar="DIR", help="output folder")]
OutFile = Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="output file")]
Surrogate = Annotated[str, typer.Argument(metavar="SURROGATE", help="what `cuvee fit` wrote")]
Surrogates = Annotated[list[str], typer.Argument(metavar="SURROGATE...", help="what `cuvee fit` wrote; several where swarms were trained for several budgets")]
TextColumn = Annotated[str, typer.Option("--text", help="column that holds the text")]
IdColumn = Annotated[Optional[str], typer.Option("--id", help="column of your own ids; `id` where there is one")]  # noqa: UP007, UP045


def main() -> None:
    try:
        app(prog_name="cuvee")
    except CuveeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # a full disk, a folder that may not be written: the message says which
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def make_engine(name: str, workers: int | None) -> Engine:
    """`local`, `ray` or `ray:ADDRESS`."""
    from cuvee.engine.local import LocalEngine, cores

    workers = cores() if workers is None else workers
    if workers < 1:
        raise UsageError(f"--workers {workers}: at least 1")
    kind, _, address = name.partition(":")
    if kind == "local" and not address:
        return LocalEngine(workers)
    if kind == "ray":
        from cuvee.engine.ray import RayEngine

        return RayEngine(address or None, workers)
    raise UsageError(f"--engine {name}: use local, ray or ray:ADDRESS")


@app.command()
def init(path: Annotated[str, typer.Argument(help="file to write")] = "recipe.yaml",
         schema: Annotated[bool, typer.Option("--schema", help="print every key with its default instead")] = False) -> None:
    """Write a recipe to start from, or print every key of a recipe."""
    from cuvee.template import STARTER, schema_text

    if schema:
        print(schema_text())
        return
    if os.path.exists(path):
        raise UsageError(f"{path} exists already. Name another file, or delete it.")
    with open(path, "w", encoding="utf-8") as file:
        file.write(STARTER)
    print(f"wrote {path}. Next: name your files in it, then `cuvee check {path}` and `cuvee run {path}`.")


@app.command()
def check(recipe: RecipePath, set: Overrides = []) -> None:  # noqa: B006 - typer wants a list
    """Read the recipe and look at its inputs; say what a run will do and what it will cost."""
    from cuvee import pipeline

    pipeline.check(recipe, set)


@app.command()
def plan(recipe: RecipePath, accelerator: Annotated[Optional[str], typer.Option(metavar="NAME", help="hours on this one instead of this machine, such as H100")] = None,  # noqa: UP007, UP045
         flops: Annotated[Optional[str], typer.Option(metavar="F", help="its peak in FLOP/s, such as 990T, where NAME is not a known one")] = None,  # noqa: UP007, UP045
         mfu: Annotated[float, typer.Option(help="share of the peak that training reaches")] = 0.4,
         time: Annotated[bool, typer.Option("--time", help="time a few steps of every proxy here, alone and in groups")] = False,
         set: Overrides = []) -> None:  # noqa: B006
    """Runs, tokens, FLOPs and hours of the swarm and of validation, and what differences they can show."""
    from cuvee import pipeline

    pipeline.plan(recipe, accelerator, flops, mfu, time, set)


@app.command()
def run(recipe: RecipePath, until: Annotated[Optional[str], typer.Option(metavar="STEP", help="stop after this step")] = None,  # noqa: UP007, UP045
        engine: EngineName = "local", workers: Workers = None, sample: Sample = None, set: Overrides = []) -> None:  # noqa: B006
    """Run the recipe; what is done stays done, so run it again after any interruption."""
    from cuvee import pipeline

    with _closing(make_engine(engine, workers)) as running:
        pipeline.run(recipe, running, until=until, sample=sample, overrides=set)


@app.command()
def status(recipe: RecipePath, set: Overrides = []) -> None:  # noqa: B006
    """Which steps are done, with their counts."""
    from cuvee import pipeline

    pipeline.status(recipe, set)


@app.command()
def report(recipe: RecipePath, set: Overrides = []) -> None:  # noqa: B006
    """Write WORK/report.html again from what is done."""
    from cuvee import pipeline

    print(pipeline.report(recipe, set))


@app.command()
def export(recipe: RecipePath, out: Out, format: Annotated[str, typer.Option(help="json or levanter")] = "json",
           set: Overrides = []) -> None:  # noqa: B006
    """Write the mixture for a trainer."""
    from cuvee import pipeline

    pipeline.export(recipe, format, out, set)


swarm = typer.Typer(no_args_is_help=True, help="The swarm's runs as files, for a trainer of your own, and its scores back.")
app.add_typer(swarm, name="swarm")


@swarm.command("export")
def swarm_export(recipe: RecipePath, out: Out, tokens: Annotated[bool, typer.Option("--tokens", help="also every run's tokens, as one .npy")] = False,
                 engine: EngineName = "local", workers: Workers = None, set: Overrides = []) -> None:  # noqa: B006
    """Write the runs that have no score yet: mixture, seed, and a stream of tokens each."""
    from cuvee import pipeline

    with _closing(make_engine(engine, workers)) as running:
        pipeline.swarm_export(recipe, running, out, tokens, set)


@swarm.command("import")
def swarm_import(recipe: RecipePath, scores: Annotated[str, typer.Argument(metavar="SCORES.csv", help="run, then a column for each task; lower is better")],
                 engine: EngineName = "local", workers: Workers = None, set: Overrides = []) -> None:  # noqa: B006
    """Take scores of exported runs, to where the recipe's swarm.scores points."""
    from cuvee import pipeline

    with _closing(make_engine(engine, workers)) as running:
        pipeline.swarm_import(recipe, running, scores, set)


@app.command()
def dedup(files: Annotated[list[str], typer.Argument(metavar="FILES...", help="JSONL or Parquet")], out: Out, text: TextColumn = "text",
          id: IdColumn = None, threshold: Annotated[float, typer.Option(help="Jaccard of 5-grams from which a text is a duplicate")] = 0.75,
          containment: Annotated[Optional[float], typer.Option(help="shared over smaller from which it is one too")] = None,  # noqa: UP007, UP045
          spans: Annotated[str, typer.Option(metavar="off|paragraph|three_sentences", help="cut what repeats inside kept texts")] = "off",
          priority: Annotated[list[str], typer.Option(metavar="FILE", help="wins duplicates; the first named wins most")] = [],  # noqa: B006
          workers: Workers = None, engine: EngineName = "local") -> None:
    """Remove exact, normalised and near duplicates from files."""
    from cuvee import standalone

    config = _section("Dedup", threshold=threshold, containment=containment, spans=spans)
    with _closing(make_engine(engine, workers)) as running:
        counts = standalone.dedup(_call(files, out, text, id, running), config, priority)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts["kinds"].items()) or "none removed"
    print(f"{counts['read']:,} rows, {counts['kept']:,} kept ({kinds}){_edited(counts)}; {counts['quarantined']:,} quarantined; {out}")


@app.command()
def decontaminate(files: Annotated[list[str], typer.Argument(metavar="FILES...", help="JSONL or Parquet")], out: Out,
                  evals: Annotated[list[str], typer.Option(metavar="FILE", help="JSONL of evaluation items; repeat for more")],
                  text: TextColumn = "text", id: IdColumn = None,
                  fields: Annotated[Optional[str], typer.Option(metavar="a,b", help="columns that make an item")] = None,  # noqa: UP007, UP045
                  rule: Annotated[str, typer.Option(metavar="any|hits:N|fraction:X|cut")] = "any",
                  workers: Workers = None, engine: EngineName = "local") -> None:
    """Remove documents that hold evaluation items from files."""
    from cuvee import standalone

    config = _section("Decontaminate", rule=rule)
    with _closing(make_engine(engine, workers)) as running:
        counts = standalone.decontaminate(_call(files, out, text, id, running), config, evals, fields.split(",") if fields else None)
    print(f"{counts['read']:,} rows, {counts['kept']:,} kept{_edited(counts)}; {counts['quarantined']:,} quarantined; {out}")


@app.command()
def fit(mixtures: Annotated[str, typer.Option(metavar="M.csv", help="key of the run, then the weight of each domain")],
        scores: Annotated[str, typer.Option(metavar="S.csv", help="key of the run, then its score on each task; lower is better")], out: OutFile,
        counts: Annotated[Optional[str], typer.Option(metavar="C.csv", help="domain,tokens: fits epochs instead of weights")] = None,  # noqa: UP007, UP045
        budget: Annotated[Optional[str], typer.Option(metavar="N", help="tokens of the training that the runs stand for, such as 1T")] = None,  # noqa: UP007, UP045
        model: Annotated[str, typer.Option(metavar="ensemble|saturating|loglinear|lightgbm|gp|linear", help="how scores follow from weights")] = "ensemble",
        groups: Annotated[Optional[str], typer.Option(metavar="G.csv", help="domain,topic,band: topics and quality bands of the domains; names like t07.q5 need none")] = None,  # noqa: UP007, UP045
        reuse: Annotated[Optional[str], typer.Option(metavar="OLD_M.csv", help="mixtures of an earlier swarm, whose domains are unions of these")] = None,  # noqa: UP007, UP045
        reuse_scores: Annotated[Optional[str], typer.Option(metavar="OLD_S.csv", help="scores of that swarm")] = None,  # noqa: UP007, UP045
        map: Annotated[Optional[str], typer.Option(metavar="MAP.csv", help="domain,old: the old domain that each domain is part of; empty where its texts are new")] = None) -> None:  # noqa: UP007, UP045
    """Fit scores to mixtures: a surrogate of your own runs, from CSV files."""
    from cuvee import tabular
    from cuvee.engine.progress import Progress

    together = [reuse, reuse_scores, map]
    if any(together) and not all(together):
        raise UsageError("--reuse, --reuse-scores and --map go together: mixtures and scores of the earlier swarm, and what became of its domains")
    old = tabular.Old(reuse, reuse_scores, map) if reuse and reuse_scores and map else None
    tabular.fit(mixtures, scores, out, model, counts, None if budget is None else tabular.tokens_of("--budget", budget), Progress(), old, groups)
    print(out)


@app.command()
def predict(surrogate: Surrogate, mixtures: Annotated[str, typer.Option(metavar="M.csv", help="key, then the weight of each domain")],
            out: OutFile) -> None:
    """Predict the scores of mixtures, with the SD of a new run."""
    from cuvee import tabular

    print(f"{tabular.predict(surrogate, mixtures, out):,} mixtures; {out}")


@app.command()
def mix(surrogate: Surrogates, counts: Annotated[str, typer.Option(metavar="C.csv", help="domain,tokens")],
        budget: Annotated[str, typer.Option(metavar="N", help="tokens of the training run, such as 1T")], out: OutFile,
        max_epochs: Annotated[float, typer.Option(help="passes over any domain, at most")] = 8.0,
        kl: Annotated[float, typer.Option(help="pull towards the natural shares")] = 0.05,
        task: Annotated[list[str], typer.Option(metavar="name=weight", help="tasks that count; all alike by default; repeat for more")] = [],  # noqa: B006
        group: Annotated[list[str], typer.Option(metavar="name=domains:low:high", help="share that domains hold together, such as 'code=t03.*:0.05:0.20'")] = [],  # noqa: B006
        protect: Annotated[list[str], typer.Option(metavar="task=rise", help="most that a score may lie over that of the natural mixture")] = [],  # noqa: B006
        extrapolate: Annotated[bool, typer.Option("--extrapolate", help="answer for a budget over twice outside of those of the swarms")] = False,
        freeze: Annotated[Optional[str], typer.Option(metavar="mixture.json", help="domains that have the same name and tokens there keep its proportions")] = None,  # noqa: UP007, UP045
        frontier: Annotated[Optional[str], typer.Option(metavar="F.csv", help="also the best mixtures at other values of --kl")] = None,  # noqa: UP007, UP045
        seed: Annotated[int, typer.Option(min=0, help="of the fits that are drawn for the ranges of weights")] = 0) -> None:
    """Find the best mixture for a token budget, under all limits."""
    from cuvee import tabular, tabular_mix
    from cuvee.engine.progress import Progress

    config = tabular_mix.settings(task, group, protect, max_epochs=max_epochs, kl=kl, extrapolate=extrapolate, freeze=freeze)
    found = tabular_mix.mix(surrogate, counts, tabular.tokens_of("--budget", budget), out, config, seed, Progress(), frontier)
    for each in found["domains"]:
        print(f"{each['name']}: {each['weight']:.4f} ({each['low']:.4f} to {each['high']:.4f}), natural {each['natural']:.4f}, {each['epochs']:.2f} epochs")
    print(out)


def _edited(counts: dict[str, Any]) -> str:
    return f", {counts['edited']:,} of them cut" if counts["edited"] else ""


def _section(name: str, **values: Any) -> Any:
    from pydantic import ValidationError

    from cuvee import config

    try:
        return getattr(config, name)(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--{first['loc'][0]} {first['input']}: {first['msg'].removeprefix('Value error, ')}") from None


def _call(files: list[str], out: str, text: str, id: str | None, engine: Engine) -> Any:
    from cuvee.engine.progress import Progress
    from cuvee.standalone import Call

    return Call(files, os.path.abspath(out), text, id, engine, Progress())


def _closing(engine: Engine) -> Any:
    import contextlib

    return contextlib.closing(engine)
