"""What the command line prints of a recipe: the plan before a run, the state during it, the results after it."""

from __future__ import annotations

from collections.abc import Sequence

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.shard import Folder, add
from cuvee.engine.step import Counts
from cuvee.engine.store import join, read_json
from cuvee.steps import store
from cuvee.steps.look import first_rows
from cuvee.steps.mixing import verdict
from cuvee.steps.proxies.subsets import check_floors
from cuvee.steps.reading.inputs import inputs_of

TOP = 12  # domains of the mixture that are shown
KEPT_KINDS = ("unique", "not_candidate")  # of the dedup table


def text(work: Work, recipe: Recipe) -> str:
    """Funnel, top of the mixture and verdict, as far as the run has come."""
    current = work.current()
    parts = [funnel(current, recipe)]
    if "mix" in current:
        parts.append(mixture(read_json(current["mix"].file("mixture.json"))))
    if "validate" in current:
        parts.append(validation(read_json(current["validate"].file("validate.json"))))
    return "\n\n".join(parts)


def funnel(current: dict[str, Folder], recipe: Recipe) -> str:
    """Documents that each step read, kept and dropped, with reasons."""
    read = _counts(current, "ingest", recipe)
    lines = [_line("ingest", read["read"], read["documents"], {**read.get("reasons", {}), "not_sampled": read["read"] - read["documents"]})]
    if _places(current, "filter", recipe):
        counts = _counts(current, "filter", recipe)
        lines.append(_line("filter", counts["read"], counts["kept"], counts["dropped"]))
    for step in ("decontaminate", "dedup"):
        if step in current:
            counts = current[step].counts
            dropped = counts.get("dropped") or {kind: number for kind, number in counts.get("kinds", {}).items() if kind not in KEPT_KINDS}
            lines.append(_line(step, counts["read"], counts["kept"], dropped))
    return "\n".join([f"{'step':<16}{'documents':>12}{'kept':>12}   dropped", *lines])


def extrapolation(work: Work, recipe: Recipe) -> str:
    """Time and text of the whole recipe, from a sample of its rows; steps that were done before count with their time then."""
    counts, seconds = _counts(work.current(), "ingest", recipe), sum(read_json(join(work.url, "timings.json")).values())
    share = counts["documents"] / max(counts["read"], 1)
    return (f"sample: {counts['documents']:,} of {counts['read']:,} documents ({share:.2%}) took {seconds:,.0f} s here, so all of it, "
            f"{counts['bytes'] / share / 1e6:,.0f} MB of text, about {seconds / share / 60:,.1f} minutes")


def _line(step: str, read: int, kept: int, dropped: Counts) -> str:
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in sorted(dropped.items()) if number)
    return f"{step:<16}{read:>12,}{kept:>12,}   {reasons}"


def _places(current: dict[str, Folder], step: str, recipe: Recipe) -> list[Folder]:
    return [current[f"{step}/{source.name}"] for source in recipe.sources if f"{step}/{source.name}" in current]


def _counts(current: dict[str, Folder], step: str, recipe: Recipe) -> Counts:
    return add(folder.counts for folder in _places(current, step, recipe))


def mixture(found: dict) -> str:
    """The largest domains of the mixture with their epochs, beside their natural shares."""
    domains = sorted(found["domains"], key=lambda domain: (-domain["weight"], domain["name"]))
    lines = [f"{each['name']:<16}{each['weight']:>9.2%}{each['natural']:>10.2%}{each['epochs']:>9.2f}" for each in domains[:TOP]]
    more = [f"... and {len(domains) - TOP} more"] if len(domains) > TOP else []
    return "\n".join([f"{'domain':<16}{'weight':>9}{'natural':>10}{'epochs':>9}", *lines, *more])


def validation(found: dict) -> str:
    """A row for each size of proposal less proportional, then the verdict and why."""
    lines = [f"{'size':<34}{'pairs':>6}{'difference':>12}{'95 % interval':>22}{'compute':>10}"]
    for size in found["sizes"]:
        gap, gain = size["proposal"], size["gains"].get("proposal")
        figures = f"{0:>6}" if gap is None else f"{gap['pairs']:>6}{gap['difference']:>+12.4f}{gap['low']:>+12.4f} to {gap['high']:+.4f}"
        times = "" if gain is None else f"{'no limit':>10}" if gain["factor"] is None else f"{gain['factor']:>8.2f} x"
        lines.append(f"{verdict.name(size):<34}{figures}{times}")
    return "\n".join([*lines, f"verdict: {found['verdict']}. {found['explanation']}", *found["remarks"]])


def status(work: Work, steps: Sequence[str]) -> str:
    """Every step that has left something: how many tasks are done, and its counts."""
    current = work.current()
    lines = []
    for place, folder in sorted(current.items(), key=lambda pair: (_order(pair[0], steps), pair[0])):
        state = "done" if folder.manifest["complete"] else "begun"
        counts = {name: value for name, value in folder.counts.items() if isinstance(value, (int, float))}
        shown = ", ".join(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:,.4g}" for name, value in counts.items())
        lines.append(f"{place:<34}{state:<7}{len(folder.manifest['tasks']):>6} tasks   {shown}")
    return "\n".join(lines) or f"nothing is done yet in {work.url}"


def _order(place: str, steps: Sequence[str]) -> int:
    step = place.split("/")[0].split(".")[0]
    return list(steps).index(step) if step in steps else len(steps)


def inputs(work: Work, recipe: Recipe) -> str:
    """Files, bytes and licence of every source."""
    lines = [f"{'source':<20}{'files':>7}{'size':>16}   licence"]
    for source in recipe.sources:
        files = inputs_of(work, source)
        kinds = ", ".join(sorted({file.kind for file in files}))
        size = sum(file.size for file in files)
        lines.append(f"{source.name:<20}{len(files):>7}{size:>16,}   {source.license or 'column ' + str(source.license_column)}; {kinds}")
    doubts = [doubt for source in recipe.sources if (doubt := first_rows(work, source, recipe.ingest)) is not None]
    return "\n".join([*lines, *(f"WARNING: {doubt}" for doubt in doubts)])


def floors(work: Work, recipe: Recipe) -> list[str]:
    """Whether every domain offers a proxy enough to repeat it as the target will, the largest of several; a DataError where too many do not."""
    tokens = store.opened(work, recipe)
    if tokens is None or not recipe.budget.proxy or not recipe.budget.target:
        return []
    return [f"{check_floors(tokens.domains, recipe.standing_for(max(recipe.budget.trained))):.1%} of the tokens lie in domains too small for a proxy to repeat as the target will"]
