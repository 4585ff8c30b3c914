"""What can be told before any work: files that are not there, names that nothing bears, first rows that give no document."""

from __future__ import annotations

from cuvee.config import Ingest, Recipe, Source
from cuvee.engine.run import Work
from cuvee.engine.store import exists, join
from cuvee.errors import UsageError, nearest
from cuvee.steps import finished, mix
from cuvee.steps.ingest import Piece, batches, row_groups
from cuvee.steps.proxies.gate import HELDOUT
from cuvee.steps.reading import templates
from cuvee.steps.reading.columns import documents_of
from cuvee.steps.reading.inputs import Input, expand, inputs_of, template_fields


def look(recipe: Recipe) -> None:
    """Every file that the recipe names is there, and the swarms reach its budget: a UsageError before any work."""
    if recipe.budget.target:
        mix.check_reach(sorted(recipe.budget.trained), recipe.budget.target, recipe.mix.extrapolate)
    for source in recipe.sources:
        found = expand(source.path, f"source {source.name}")
        if inside := next((url for url, _ in found if url.startswith(recipe.work.rstrip("/") + "/")), None):
            raise UsageError(f"source {source.name} would read {inside}, which is in the work folder. Keep work apart from the sources.")
        template_fields(source.text)
    for each in recipe.evals:
        expand(each.path, f"evaluation {each.name}")
        for template in (each.context, each.continuation):
            if template is not None:
                templates.parse(template)
    named = {f"exclude.{name}": path for name, path in recipe.exclude}
    named |= {"tokenizer.file": recipe.tokenizer.file, "embed.fit": recipe.embed.fit, "quality.labels": recipe.quality.labels}
    named |= {"fit.reuse": recipe.fit.reuse, "mix.freeze": recipe.mix.freeze}
    named |= {f"stream.stages.{number}.mixture": stage.mixture for number, stage in enumerate(recipe.stream.stages) if stage.mixture.endswith(".json")}
    for key, path in named.items():
        if path is not None and not exists(path):
            raise UsageError(f"{key}: no such file: {path}")
    if recipe.mix.freeze is not None:
        mix.read_old(recipe.mix.freeze)
    if recipe.fit.reuse is not None and (recipe.fit.reuse == recipe.work or not exists(join(recipe.fit.reuse, finished.NOTE))):
        raise UsageError(f"fit.reuse: {recipe.fit.reuse} is not the work folder of an earlier run; it is this recipe's own, or has no {finished.NOTE}")
    _tasks_will_be_there(recipe)


def _tasks_will_be_there(recipe: Recipe) -> None:
    """A UsageError where mix.tasks or mix.protect names what no swarm of the recipe is scored on; another trainer's tasks are known once they are imported."""
    asked = [each.name for each in recipe.evals if each.continuation is not None]
    for key, names in (("mix.tasks", recipe.mix.tasks), ("mix.protect", recipe.mix.protect)):
        for name in names if recipe.swarm.scores is None else ():
            if name not in asked and not name.startswith(HELDOUT):
                raise UsageError(f"{key}: the swarm will have no task '{name}'; tasks are evaluations with a continuation, and {HELDOUT}DOMAIN. "
                                 f"{nearest(name, [*asked, f'{HELDOUT}DOMAIN'])}")


def first_rows(work: Work, source: Source, config: Ingest) -> str | None:
    """What is wrong with a source of whose first rows none gives a document; None where one does, or no row is there.

    The first batch of the first file that has rows is read: at most some thousands of rows, and a whole text file.
    """
    for file in inputs_of(work, source):
        batch = next(batches(_piece(file), None))
        found = documents_of(batch, source, config, file.name)
        if found.rows:
            return None
        if found.faults:
            first, count = found.faults[0], len(found.faults)
            return (f"source {source.name}: none of the first {count:,} rows of {file.url} gives a document. "
                    f"Row {first.row}: {first.reason}: {first.detail}")
    return None


def _piece(file: Input) -> Piece:
    return row_groups(file, 1)[0] if file.kind == "parquet" else Piece(file)
