"""MB of UTF-8 text per second and core, warm, of the text kernels: python benchmarks/kernels_text.py [megabytes]

English documents of 2-10 kB are cut from the docstrings of Python's standard library; the multilingual set spells the
same words in other scripts, one script a document. Times are of the process, so that other work disturbs them less.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from cuvee.kernels.minhash import sign
from cuvee.kernels.text import buffers, nfc, text_ids
from cuvee.kernels.words import tokenize

ROUNDS = 7
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SCRIPTS = {
    "latin": "ábcdéfghíjklmñóþqřštúvwxýž",
    "cyrillic": "абцдефгхийклмнопярстувшжыз",
    "greek": "αβψδεφγηιξκλμνοπχρστθωςζυά",
    "arabic": "ابثدعفغهيجكلمنوبقرستظضوخىز",
    "devanagari": "अबचदएफगहईजकलमनओपखरसतउवटषयझ",
    "hangul": "가나다라마바사아자차카타파하고노도로모보소오조초코토",
    "thai": "กขคฆงจฉชซญฎฏฐณดตถทธนบปผพฟม",
    "han": "的一是不了在人有我他这中大来上国个到说们为子和你地出",
}


def english(size: int) -> list[str]:
    """Documents of 2-10 kB, `size` bytes in all."""
    docstrings = []
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        nodes = ast.walk(ast.parse(file.read_bytes()))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docstrings += [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
    text, rng, documents = "\n\n".join(filter(None, docstrings)), np.random.default_rng(0), []
    while size > 0:
        start, length = rng.integers(len(text) - 10_000), rng.integers(2_000, 10_000)
        documents.append(text[start : start + length])
        size -= length
    return documents


def multilingual(documents: list[str]) -> list[str]:
    """Document i spelled in script i modulo 8; words shrink to a third where one character is a syllable or a word."""
    tables = {script: str.maketrans(LETTERS, spelling) for script, spelling in SCRIPTS.items()}
    spelled = []
    for document, script in zip(documents, list(SCRIPTS) * (len(documents) // len(SCRIPTS) + 1)):
        short = script in ("hangul", "thai", "han")
        words = (word[: (len(word) + 2) // 3] if short else word for word in document.lower().split(" "))
        spelled.append(("" if script in ("thai", "han") else " ").join(words).translate(tables[script]))
    return spelled


def speed(work: Callable[[pa.Array], object], texts: pa.Array) -> float:
    work(texts)
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work(texts)
        seconds.append(time.process_time() - start)
    return buffers(texts)[0].size / 1e6 / min(seconds)


def main(megabytes: int) -> None:
    documents = english(megabytes * 1_000_000)
    curly = [document.replace("'", "’") for document in documents]
    sets = {"english": documents, "english, curly quotes": curly, "multilingual": multilingual(documents)}
    sets |= {f"  {script}": sets["multilingual"][i :: len(SCRIPTS)] for i, script in enumerate(SCRIPTS)}
    work = {"nfc": nfc, "tokenize": lambda t: tokenize(*buffers(t)), "sign": sign, "text_ids": text_ids}
    print(f"{'MB/s':24}" + "".join(f"{name:>12}" for name in work))
    for name, texts in sets.items():
        array = pa.array(texts, pa.large_string())
        print(f"{name:24}" + "".join(f"{speed(kernel, array):12.0f}" for kernel in work.values()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 16)
