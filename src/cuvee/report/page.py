"""The page of a run: one HTML file that needs nothing else, from whatever is done."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from importlib.resources import files

from cuvee.config import Recipe
from cuvee.engine.run import Work
from cuvee.engine.store import join as join_url
from cuvee.engine.store import write_bytes
from cuvee.report import corpus, domains, frontier, header, mixing, rounds, validation
from cuvee.report.facts import Facts
from cuvee.report.gather import gather
from cuvee.report.markup import Html, is_missing, join, tag

ANCHOR = re.compile(r'<section id="([^"]*)"><h2>(.*?)</h2>')


def write_report(work: Work, recipe: Recipe) -> str:
    """Write WORK/report.html; its URL."""
    url = join_url(work.url, "report.html")
    write_bytes(url, page(gather(work, recipe)).encode())
    return url


def page(facts: Facts) -> Html:
    """What is done in the order of interest, then what is not done."""
    names = {each["topic"]: each["name"] for each in facts.topics["topics"]} if facts.topics else {}
    sections = [
        corpus.funnel(facts.flows),
        mixing.mixture(facts.mixture, names),
        frontier.frontier(facts.mixture),
        validation.validation(facts.validation),
        mixing.fit(facts.fit),
        mixing.swarm(facts.swarm, facts.drawn, facts.fit),
        rounds.rounds(facts.rounds),
        corpus.quarantine(facts.flows),
        corpus.licenses(facts.licenses, facts.duplicates is not None),
        corpus.drops(facts.drops, facts.shards),
        corpus.evals(facts.evals, facts.set_aside, facts.contaminated, facts.shards),
        corpus.duplicates(facts.duplicates, facts.copied, facts.flows, facts.shards),
        domains.topics(facts.topics),
        domains.domains(facts.domains, names, facts.store, facts.portraits),
        domains.bands(facts.domains),
        header.steps(facts.done),
        header.recipe(facts.recipe),
    ]
    return document("Cuvee run", header.header(facts), sorted(sections, key=is_missing))


def document(title: str, head: Html, sections: Sequence[Html]) -> Html:
    """A whole HTML file with a list of its sections."""
    links = [tag("a", Html(name), href=f"#{anchor}") for each in sections for anchor, name in ANCHOR.findall(each[:200])]
    meta = [tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"), tag("title", title)]
    body = tag("body", head, tag("nav", *links), tag("main", *sections))
    return join([Html("<!doctype html>\n"), tag("html", tag("head", *meta, tag("style", Html(_style()))), body, lang="en")])


@functools.cache
def _style() -> str:
    return files("cuvee.report").joinpath("style.css").read_text("utf-8")
