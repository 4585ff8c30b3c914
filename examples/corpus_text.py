"""Markup to plain text for `build_corpus.py`: HTML, reStructuredText, man pages, wikitext.

Each function takes the markup of one page and gives plain text in which headings stand on a line of
their own as `# Title`, `## Title`. `sections` cuts such text at its headings. Standard library only.
"""

import gzip
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

HEAD = "\x01"  # marks a heading until the text is cut, so that a `#` inside code is never taken for one
SKIP_TAGS = {"script", "style", "nav", "aside", "header", "footer", "button", "input", "label"}
SKIP_CLASSES = {"headerlink", "navheader", "navfooter", "docnav", "relatedtopics", "indexterm", "toc", "bascode_num",
                "icon", "viewcode-link", "url", "version"}
BLOCKS = {"p", "div", "li", "dt", "dd", "tr", "ul", "ol", "dl", "table", "section", "pre", "blockquote", "br"}
VOID = {"br", "img", "hr", "input", "meta", "link", "col", "base", "area", "wbr", "source"}


class _Page(HTMLParser):
    """Collects the text of one HTML page, `depth` > 0 while inside an element that is skipped."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts, self.depth, self.pre = [], 0, 0

    def handle_starttag(self, tag, attrs):
        classes = set((dict(attrs).get("class") or "").split())
        if self.depth or tag in SKIP_TAGS or classes & SKIP_CLASSES:
            self.depth += tag not in VOID
            return
        if re.fullmatch(r"h[1-6]", tag):
            self.parts.append("\n\n" + HEAD + "#" * int(tag[1]) + " ")
        elif tag in BLOCKS:
            self.parts.append({"li": "\n\n- ", "br": "\n", "div": "\n\n", "p": "\n\n"}.get(tag, "\n\n"))
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        self.pre += tag == "pre"

    def handle_endtag(self, tag):
        if self.depth:
            self.depth -= tag not in VOID
            return
        self.pre -= tag == "pre"
        if tag in BLOCKS or re.fullmatch(r"h[1-6]", tag):
            self.parts.append("\n\n")

    def handle_data(self, data):
        if not self.depth and not self.pre:
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip() if self.parts and self.parts[-1].endswith("\n") else data
        if not self.depth and data:
            self.parts.append(data)


def gunzip(file: Path) -> str:
    return gzip.decompress(file.read_bytes()).decode("utf-8")


def html_text(html: str) -> str:
    """Text of an HTML page or of a part of one, headings as `# Title`."""
    return html_marked(html).replace(HEAD, "")


def html_marked(html: str) -> str:
    """The same with headings marked for `sections`; tables become lines of ` | `-separated values."""
    page = _Page()
    page.feed(html)
    page.close()
    text = "".join(page.parts).replace("\xa0", " ")
    text = re.sub(r"(- |\| |# )\s*\n\s*", r"\1", text)
    return tidy(text)


def tidy(text: str) -> str:
    """Without trailing blanks, and with at most one empty line in a row."""
    text = re.sub(r"[ \t]+\n", "\n", text.replace("\r\n", "\n"))
    text = re.sub(r"\n{3,}", "\n\n", text)
    return text.strip()


def rst_marked(text: str) -> str:
    """reStructuredText as it is written, its title lines marked; levels by order of first use in the file."""
    lines, levels, out = text.split("\n"), [], []
    for i, line in enumerate(lines):
        under = lines[i + 1] if i + 1 < len(lines) else ""
        if line.strip() and re.fullmatch(r"([=\-~*^\"#+`'.])\1{2,}\s*", under) and len(under.strip()) >= len(line.strip()):
            if under[0] not in levels:
                levels.append(under[0])
            out.append(HEAD + "#" * (levels.index(under[0]) + 1) + " " + line.strip())
        elif not re.fullmatch(r"([=\-~*^\"#+`'.])\1{2,}\s*", line) or line[0] == "=" and " " in line:
            out.append(line)
    return tidy("\n".join(out))


def man_text(roff: str) -> str:
    """A man page made by DocBook, as text: the few requests and escapes that its stylesheet writes."""
    out, skipping = [], False
    for line in roff.split("\n"):
        if line.startswith((".ie", ".el", '.\\"', "'\\\"", ".TH", ".nh", ".ad", ".if")):
            continue
        head = re.match(r'\.S([HS]) "?(.*?)"?$', line)
        if head:
            out.append("\n" + "#" * (1 if head[1] == "H" else 2) + " " + head[2] + "\n")
        elif line.startswith((".PP", ".sp", ".RS", ".RE", ".nf", ".fi")):
            out.append("")
        elif line.startswith(".TS"):
            skipping = True
        elif skipping and line.endswith("."):
            skipping = False
        elif not line.startswith((".", "'")) and not skipping:
            out.append(line)
    text = "\n".join(out)
    text = re.sub(r"\\f[A-Z0-9]|\\f\(..|\\&|\\u|\\d|\\h'[^']*'|\\c", "", text)
    for escape, char in {r"\(aq": "'", r"\*(Aq": "'", r"\(bu": "-", r"\(em": "—", r"\(lq": "“", r"\(rq": "”", r"\(co": "©",
                         r"\-": "-", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~", r"\e": "\\", r"\ ": " ", r"\(->": "→",
                         r"\(<=": "≤", r"\(>=": "≥", r"\(mu": "×", "T{\n": "", "\nT}": ""}.items():
        text = text.replace(escape, char)
    return tidy(text)


def wiki_marked(wikitext: str) -> str:
    """Wikitext without templates, tables, references and files; links become their text, headings are marked."""
    text = re.sub(r"<!--.*?-->|<ref[^>]*/>", "", unescape(wikitext), flags=re.S)
    text = re.sub(r"<(ref|math|gallery|timeline|score)\b.*?</\1>", "", text, flags=re.S | re.I)
    for opening, closing in (("{{", "}}"), ("{|", "|}")):
        text = _without_nested(text, opening, closing)
    text = _files_dropped(text)
    text = re.sub(r"\[\[(?:[^\]|]*\|)?([^\]|]*)\]\]", r"\1", text)
    text = re.sub(r"\[(?:https?|ftp)[^\s\]]*\s?([^\]]*)\]", r"\1", text)
    text = re.sub(r"</?[a-zA-Z][^>]*>|'{2,}|__[A-Z]+__", "", text)
    text = re.sub(r"^(=+)\s*(.*?)\s*=+\s*$", lambda m: f"\n{HEAD}{'#' * len(m[1])} {m[2]}\n", text, flags=re.M)
    text = re.sub(r"\(\s*[;,]?\s*\)", "", text)
    return tidy(re.sub(r"^[*#:;]+\s*", "- ", text, flags=re.M))


def _without_nested(text: str, opening: str, closing: str) -> str:
    out, depth, at = [], 0, 0
    for mark in re.finditer(re.escape(opening) + "|" + re.escape(closing), text):
        if depth == 0:
            out.append(text[at:mark.start()])
        depth = max(0, depth + (1 if mark[0] == opening else -1))
        at = mark.end()
    return "".join(out) + (text[at:] if depth == 0 else "")


def _files_dropped(text: str) -> str:
    link = r"\[\[(?:File|Image|Category):(?:[^\[\]]|\[\[[^\[\]]*\]\]|\[[^\[\]]*\])*\]\]"
    return re.sub(link, "", text, flags=re.I)


def sections(marked: str, level: int) -> list[tuple[str, str]]:
    """(title, text) of each part of a marked text, cut before its headings of `level` or higher."""
    parts = re.split(rf"(?=^{HEAD}#{{1,{level}}} )", marked, flags=re.M)
    cut = [part.replace(HEAD, "").strip() for part in parts if part.strip()]
    return [(re.sub(r"^#+ ", "", part.split("\n", 1)[0]).strip(), part) for part in cut]


def cut_at_sentences(text: str, words: int) -> list[str]:
    """Consecutive parts of about `words` words that end where a sentence ends."""
    parts, part, count = [], [], 0
    for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z\"])", text):
        part.append(sentence)
        count += len(sentence.split())
        if count >= words:
            parts.append(" ".join(part))
            part, count = [], 0
    if part and (count >= words // 3 or not parts):
        parts.append(" ".join(part))
    elif part:
        parts[-1] += " " + " ".join(part)
    return parts
