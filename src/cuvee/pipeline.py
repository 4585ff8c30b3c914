"""The order of the steps, and what the verbs `check`, `run`, `status`, `report` and `export` do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cuvee import plan as plans
from cuvee import recipe as recipes
from cuvee import summary, swarm_files
from cuvee.config import Budget, Recipe, parse_share
from cuvee.engine.local import LocalEngine
from cuvee.engine.progress import Progress
from cuvee.engine.run import Engine, Work
from cuvee.engine.shard import Folder, Table
from cuvee.engine.store import exists
from cuvee.errors import DataError, UsageError, nearest
from cuvee.report import write_report
from cuvee.steps import (
    decontaminate,
    dedup,
    embed,
    filter,
    finished,
    fit,
    ingest,
    look,
    mix,
    quality,
    store,
    stream,
    swarm,
    tokenize,
    topics,
    validate,
)
from cuvee.steps import export as exports
from cuvee.steps.mixing import reuse
from cuvee.steps.vectors import portraits

JUDGES = ("filter", "decontaminate", "dedup")  # the tables that say which rows are kept


@dataclass
class Run:
    """A recipe on its way: what each step has left so far."""

    recipe: Recipe
    work: Work
    sample: float | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    folders: dict[str, Folder] = field(default_factory=dict)
    swarms: dict[int, Folder] = field(default_factory=dict)  # by the target budget that they stand for
    fits: dict[int, Folder] = field(default_factory=dict)
    tokens: store.TokenStore | None = None

    @property
    def documents(self) -> Table:
        return self.tables["documents"]

    def verdicts(self, *names: str) -> list[Table]:
        return [self.tables[name] for name in names or JUDGES]


def _ingest(run: Run) -> None:
    run.tables["documents"] = ingest.run(run.work, run.recipe, run.sample)


def _filter(run: Run) -> None:
    run.tables["filter"] = filter.run(run.work, run.recipe, run.documents)
    _removed(run, "filter")


def _decontaminate(run: Run) -> None:
    run.tables["decontaminate"] = decontaminate.run(run.work, run.recipe, run.documents, run.tables["filter"])
    if run.recipe.evals:
        _removed(run, "decontaminate")


def _dedup(run: Run) -> None:
    run.tables["dedup"] = dedup.run(run.work, run.recipe, run.documents, run.verdicts("filter"), run.verdicts("decontaminate"))
    _removed(run, "dedup")


def _embed(run: Run) -> None:
    if not run.work.current()["dedup"].counts.get("kept"):
        raise DataError(f"no document is left to embed. See where they went: cuvee run --until dedup, and {run.work.url}/report.html")
    run.tables["embed"] = embed.run(run.work, run.recipe, run.documents, run.verdicts())


def _topics(run: Run) -> None:
    run.tables["topics"] = topics.run(run.work, run.recipe, run.tables["embed"])


def _quality(run: Run) -> None:
    run.tables["quality"] = quality.run(run.work, run.recipe, run.tables["embed"], run.tables["topics"])


def _tokenize(run: Run) -> None:
    tokenizer = tokenize.fit(run.work, run.recipe, run.documents, run.verdicts())
    run.tables["tokenize"] = tokenize.run(run.work, run.recipe, run.documents, run.verdicts(), tokenizer)
    run.tokens = store.run(run.work, run.recipe, run.tables["tokenize"], run.tables["quality"], tokenizer)
    portraits.run(run.work, run.tables["embed"], run.tables["quality"], run.tokens)


def _swarm(run: Run) -> None:
    if not run.recipe.budget.target or not run.recipe.budget.proxy:
        raise UsageError("the swarm needs budget.target and budget.proxy, tokens of the real run and of one proxy; or run --until tokenize")
    given = None if run.recipe.swarm.scores is None else swarm_files.read(run.recipe.swarm.scores)
    for target, recipe in _targets(run):
        run.swarms[target] = run.folders["swarm"] = swarm.run(run.work, recipe, run.tokens, given=given)


def _fit(run: Run) -> None:
    for target, recipe in _targets(run):
        old = reuse.run(run.work, recipe, run.tables["quality"], run.tokens, run.swarms[target])
        run.fits[target] = run.folders["fit"] = fit.run(run.work, recipe, run.tokens, run.swarms[target], old)


def _targets(run: Run) -> list[tuple[int, Recipe]]:
    """Each budget that a swarm stands for, with the recipe for it; the one nearest to the target, which the report shows, is last."""
    return [(target, run.recipe.standing_for(target)) for target in run.recipe.budget.trained]


def _mix(run: Run) -> None:
    run.folders["mix"] = mix.run(run.work, run.recipe, run.tokens, run.fits)


def _validate(run: Run) -> None:
    if run.recipe.swarm.scores is not None:
        run.work.progress.say("validate is left out: the scores are another trainer's, so train the proposal and proportional at a larger size there")
        return
    run.folders["validate"] = validate.run(run.work, run.recipe, run.tokens, run.folders["fit"], run.folders["mix"])


def _stream(run: Run) -> None:
    stream.write(run.work, run.recipe, run.tokens, run.folders["mix"])


STEPS: dict[str, Callable[[Run], None]] = {
    "ingest": _ingest, "filter": _filter, "decontaminate": _decontaminate, "dedup": _dedup, "embed": _embed, "topics": _topics,
    "quality": _quality, "tokenize": _tokenize, "swarm": _swarm, "fit": _fit, "mix": _mix, "validate": _validate, "stream": _stream}


def _removed(run: Run, step: str) -> None:
    """Say loudly where a step that judges rows removes none of them, or most."""
    folders = [folder for place, folder in run.work.current().items() if place == step or place.startswith(f"{step}/")]
    names = {source.name for source in run.recipe.sources}
    counts = [folder.counts for folder in folders if folder.source is None or folder.source in names]
    run.work.progress.removed(step, sum(each["read"] for each in counts), sum(each["kept"] for each in counts))


def run(path: str, engine: Engine, until: str | None = None, sample: str | None = None, overrides: Sequence[str] = ()) -> Run:
    """Do what is not done yet of a recipe, write the report, print the summary."""
    if until is not None and until not in STEPS:
        raise UsageError(f"--until {until}: no such step. {nearest(until, STEPS)}")
    share = _share(sample)
    recipe = _sampled(recipes.load(path, overrides), share)
    look.look(recipe)
    _scores_are_there(recipe, until)
    if recipe.work.startswith("memory://") and engine.workers > 1:
        raise UsageError(f"work: {recipe.work}: processes do not share memory://. Use --workers 1, or a folder.")
    going = Run(recipe, Work(recipe.work, engine, Progress()), share)
    start = time.monotonic()
    with going.work.lock():
        before = finished.noted(going.work)
        finished.note(going.work, recipe, share, None)
        _say_what_a_new_source_costs(going)
        for name, step in STEPS.items():
            step(going)
            if name == until:
                break
        if until is None or going.work.done:
            going.work.forget_the_rest()
        unchanged = not going.work.done and before["recipe"] == finished.identity(recipe, share)
        finished.note(going.work, recipe, share, before["reached"] if unchanged else name)
        page = write_report(going.work, recipe)
    seconds = time.monotonic() - start
    print(summary.text(going.work, recipe))
    if share is not None:
        print(summary.extrapolation(going.work, recipe))
    print(f"{len(going.work.done)} steps done, {seconds:.1f} s; report: {page}")
    return going


def _scores_are_there(recipe: Recipe, until: str | None) -> None:
    """A UsageError where a run would come to a swarm whose scores nobody has imported yet."""
    path, names = recipe.swarm.scores, list(STEPS)
    reached = until is None or names.index(until) >= names.index("swarm")
    if path is not None and reached and not exists(path):
        raise UsageError(f"swarm.scores: no such file: {path}. `cuvee swarm export RECIPE -o DIR` writes the runs to train, `cuvee swarm import RECIPE "
                         "SCORES.csv` writes their scores there.")


def _say_what_a_new_source_costs(run: Run) -> None:
    """Fitted steps see every source: a new one does them again, and with them what they feed."""
    known = {place.split("/")[1] for place in run.work.current() if place.startswith("ingest/")}
    new = sorted({source.name for source in run.recipe.sources} - known)
    fitted = [name for name, pinned in (("embed.fit", run.recipe.embed.fit), ("tokenizer.fit", run.recipe.tokenizer.file)) if pinned is None]
    if known and new and fitted:
        run.work.progress.say(f"new sources ({', '.join(new)}): {' and '.join(fitted)} run again, and embed or tokenize of every source "
                              "after them. Pin embed.fit or tokenizer.file to keep them.")


def _share(sample: str | None) -> float | None:
    if sample is None:
        return None
    value = parse_share(sample)
    try:
        share = float(value)
    except ValueError:
        raise UsageError(f"--sample {sample}: write a share such as 0.1% or 0.001") from None
    if not 0 < share <= 1:
        raise UsageError(f"--sample {sample}: a share lies over 0 and is at most 100%")
    return share


def _sampled(recipe: Recipe, share: float | None) -> Recipe:
    """Under a sample budgets and stages shrink with the data, so that epochs stay what they are; small subsets are said, no error."""
    if share is None:
        return recipe
    budget = Budget(target=round(recipe.budget.target * share), proxy=round(recipe.budget.proxy * share),
                    targets=[round(target * share) for target in recipe.budget.targets])
    stages = [stage.model_copy(update={"tokens": round(stage.tokens * share)}) if stage.tokens else stage for stage in recipe.stream.stages]
    return recipe.model_copy(update={"budget": budget, "stream": recipe.stream.model_copy(update={"stages": stages}),
                                     "swarm": recipe.swarm.model_copy(update={"max_floored": 1.0})})


def check(path: str, overrides: Sequence[str] = ()) -> None:
    """Read the recipe and its inputs, and say what a run will do; nothing is written but the inputs' checksums."""
    recipe = recipes.load(path, overrides)
    look.look(recipe)
    work = Work(recipe.work, LocalEngine(1))
    print("\n".join([summary.inputs(work, recipe), "", *plans.cost(work, recipe, plans.here()), *summary.floors(work, recipe)]))


def plan(path: str, accelerator: str | None, flops: str | None, mfu: float, timed: bool, overrides: Sequence[str] = ()) -> None:
    """Say what the swarm and validation will cost on a machine, and what differences they can show."""
    recipe = recipes.load(path, overrides)
    machine = plans.machine(accelerator, flops, mfu, timed)
    work = Work(recipe.work, LocalEngine(1))
    advice = plans.advice(work, recipe) if timed and recipe.budget.proxy else []
    print("\n".join([*plans.cost(work, recipe, machine), *advice, "", *plans.resolution(work, recipe)]))


def swarm_export(path: str, engine: Engine, out: str, rows: bool, overrides: Sequence[str] = ()) -> None:
    """Write the swarm's runs that have no score yet, for a trainer outside Cuvee; what they need is done first."""
    if recipes.load(path, overrides).budget.targets:
        raise UsageError("budget.targets asks for a swarm for each of its budgets; an export is of one, for budget.target. Leave targets out: "
                         "--set budget.targets=[] --set budget.target=N --set work=FOLDER, once for each.")
    if os.path.isfile(out):
        raise UsageError(f"-o {out} is a file; name a folder")
    going = run(path, engine, until="tokenize", overrides=overrides)
    with going.work.lock():
        print(swarm_files.export(going.work, going.recipe, going.tokens, out, rows))


def swarm_import(path: str, engine: Engine, scores: str, overrides: Sequence[str] = ()) -> None:
    """Take another trainer's scores of the swarm's runs."""
    swarm_files.place(recipes.load(path, overrides))
    swarm_files.read(scores)
    going = run(path, engine, until="tokenize", overrides=overrides)
    with going.work.lock():
        print(swarm_files.take(going.work, going.recipe, going.tokens, scores))


def status(path: str, overrides: Sequence[str] = ()) -> None:
    recipe = recipes.load(path, overrides)
    work = Work(recipe.work, LocalEngine(1))
    print(summary.status(work, list(STEPS)))
    for line in finished.differences(work, recipe):
        print(f"NOT OF THIS RECIPE: {line}. `cuvee run` does what that changes.")


def report(path: str, overrides: Sequence[str] = ()) -> str:
    """Write WORK/report.html again from what is done; where it is."""
    recipe = recipes.load(path, overrides)
    return write_report(Work(recipe.work, LocalEngine(1)), recipe)


def export(path: str, format: str, out: str, overrides: Sequence[str] = ()) -> None:
    recipe = recipes.load(path, overrides)
    finished.must_be_of(Work(recipe.work, LocalEngine(1)), recipe)
    exports.write(Work(recipe.work, LocalEngine(1)), recipe, format, out)
