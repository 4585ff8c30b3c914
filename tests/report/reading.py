"""Read a page back as a browser would: its tables, its text, and whether every element is closed."""

from __future__ import annotations

from html.parser import HTMLParser

CLOSED = {"meta", "br"}


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.tables: dict[str, list[list[list[str]]]] = {}  # section -> tables of rows of cells
        self.text = ""
        self._section = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.tags.append((tag, dict(attributes)))
        self.open += [tag] if tag not in CLOSED else []
        if tag == "section":
            self._section = dict(attributes)["id"]
            self.tables[self._section] = []
        elif tag == "table":
            self.tables[self._section].append([])
        elif tag == "tr":
            self.tables[self._section][-1].append([])
        elif tag in ("td", "th"):
            self.tables[self._section][-1][-1].append("")

    def handle_startendtag(self, tag: str, attributes: list) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.tables[self._section][-1][-1][-1] += data
