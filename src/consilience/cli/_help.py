"""Help of verbs with many options: those that most people need first, the others in sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

__all__ = ["READING", "Sectioned"]

#: Options that say how a file of labels is read; every verb that reads one has them.
READING = ("format", "question", "item", "annotator", "label", "encoding", "max_bytes", "duplicates")


class Sectioned(click.Command):
    """A verb whose help has sections: title to names of options."""

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sections = sections or {"Reading the file": READING}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, first those that are in no section."""
        section_of = {name: title for title, names in self.sections.items() for name in names}
        records: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in self.sections}}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
                records[section_of.get(str(option.name), "Options")].append(record)
        for title, rows in records.items():
            with formatter.section(title):
                formatter.write_dl(rows)
