"""The command line: one module for each verb, which calls the Python API only.

Nothing heavy is imported before a verb runs: ``consilience --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn

import click

import consilience

__all__ = ["Verbs", "cli", "main"]

#: Verb: its purpose.  The module of the same name has a click command called ``command``.
VERBS: Mapping[str, str] = {
    "aggregate": "Turn a file of labels into consensus labels.",
    "update": "Add new labels to a run, without reading the old ones again.",
    "diagnose": "Check whether the labels show how good annotators are, and what to collect.",
    "plan": "Plan which annotator should label which item next.",
    "estimate": "Estimate a share, a mean or a win rate with a valid interval.",
    "audit": "Audit a panel of judges: errors, families, biases, and whom to keep.",
    "rank": "Rank items by pairwise comparisons.",
    "cluster": "Cluster samples near subspaces or curves by their features.",
    "compare": "Compare methods where the truth is known.",
    "review": "Open a local page for deciding doubtful items.",
    "report": "Write the HTML report of a run.",
    "export": "Write the labels of a run for other tools.",
    "simulate": "Simulate annotators whose truth is known.",
    "datasets": "Look up public data sets.",
    "demo": "Aggregate the bundled 1979 table.",
}


class Verbs(click.Group):
    """A group of verbs that says in one sentence which verb a misspelt one may be."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb and its arguments."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            from consilience.exceptions import ParameterError, did_you_mean

            hint = did_you_mean(args[0], known, f"The verbs are {', '.join(known)}")
            raise ParameterError(f"there is no verb {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


class _AllVerbs(Verbs):
    """Imports the module of a verb when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"consilience.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_AllVerbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(consilience.__version__, prog_name="consilience")
def cli() -> None:
    """Labels you can trust from annotators you cannot.

    Start with:  consilience aggregate LABELS.csv --out run
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; exit status: 0 done, 1 the data cannot be used, 2 wrong usage."""
    from consilience.exceptions import ConsilienceError, ParameterError

    try:
        return cli.main(arguments, standalone_mode=True)
    except ParameterError as error:
        _fail(f"{error}", 2)
    except (ConsilienceError, OSError) as error:
        _fail(f"{error}", 1)
    except MemoryError as error:
        _fail(_MEMORY + (f" ({error})" if str(error) else ""), 1)


#: What to do when memory runs out.
_MEMORY = (
    "there is not enough memory. Stream the labels from disk (--engine stream, for CSV and Parquet tables), use a "
    "method that needs less (--method ds-em or majority), or merge rare classes"
)


def _fail(message: str, status: int) -> NoReturn:
    from consilience.cli._output import safe

    click.echo(safe(f"Error: {message}"), err=True)
    sys.exit(status)
