"""A page read as a browser would read it, without one."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest

import consilience as cs
from consilience.datasets import Simulation

_VOID = {"meta", "link", "input", "br", "img", "hr"}


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None]
    parts: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text below, with single spaces."""
        return " ".join("".join(part if isinstance(part, str) else f" {part.text} " for part in self.parts).split())

    def all(self, tag: str = "", **attributes: str) -> list[Node]:
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        found = []
        for part in self.parts:
            if isinstance(part, Node):
                if (not tag or part.tag == tag) and all(part.attributes.get(n) == v for n, v in wanted.items()):
                    found.append(part)
                found += part.all(tag, **attributes)
        return found

    def one(self, tag: str = "", **attributes: str) -> Node:
        found = self.all(tag, **attributes)
        assert len(found) == 1, (tag, attributes, len(found))
        return found[0]

    def rows(self) -> list[list[str]]:
        """The cells of the body of a table, without tables inside cells."""
        body = next(part for part in self.parts if isinstance(part, Node) and part.tag == "tbody")
        lines = [part for part in body.parts if isinstance(part, Node)]
        return [[cell.text for cell in line.parts if isinstance(cell, Node)] for line in lines]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]
        self.tags: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        node = Node(tag, dict(attrs))
        self.tags[tag] += 1
        self.open[-1].parts.append(node)
        if tag not in _VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def parsed(page: str) -> Node:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], "an element is not closed"
    return reader.root


def tags_of(page: str) -> Counter[str]:
    reader = _Reader()
    reader.feed(page)
    return reader.tags


def quietly(data: Any, method: str = "ds-em", **options: Any) -> cs.Consensus:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        return cs.aggregate(data, method, **options)


@pytest.fixture(scope="session")
def simulated() -> Simulation:
    return cs.simulate(300, 12, 3, labels_per_item=4, experts=0.2, spammers=0.2, adversaries=0.1, seed=3)


@pytest.fixture(scope="session")
def run(simulated: Simulation) -> cs.Consensus:
    return quietly(simulated.annotations)
