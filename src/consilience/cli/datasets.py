"""``consilience datasets``: public data sets, their origin, and their folders on this machine."""

from __future__ import annotations

import click

from consilience.cli import Verbs

__all__ = ["command"]

#: What the short names of counts stand for.
_COUNTS = {
    "N": "items",
    "M": "annotators",
    "K": "classes",
    "dup_pairs": "repeated answers",
    "truth": "items with known truth",
    "truth_with_labels": "items with known truth and labels",
}


@click.group(name="datasets", cls=Verbs)
def command() -> None:
    """Look up public data sets.

    Sets other than the bundled 1979 table are read from the folder that CONSILIENCE_DATA names.
    """


@command.command(name="list")
def list_() -> None:
    """List the sets, a line each; info prints the size and the origin of one."""
    from rich.console import Console

    import consilience as cs

    infos = [cs.datasets.info(name) for name in cs.datasets.names()]
    rows = [(info.name, "yes" if _is_here(info.name) else "no", info.summary) for info in infos]
    width, most = max(len(name) for name, *_ in rows), Console().width
    for name, here, summary in (("name", "here", "what it is"), *rows):
        line = f"{name:<{width}}  {here:<4}  {summary}"
        click.echo(line if len(line) <= most else line[: most - 1] + "…")
    if unknown := cs.datasets.unknown():
        click.echo(f"not in the catalogue: {', '.join(unknown)}")


@command.command(name="info")
@click.argument("name")
def info_(name: str) -> None:
    """Print the origin, licence and size of a set."""
    import consilience as cs

    info = cs.datasets.info(name)
    click.echo(f"{info.name}: {info.description}")
    click.echo(f"kind: {info.kind}")
    click.echo(f"source: {info.repository}" + (f", commit {info.commit}" if info.commit else ""))
    for path in info.paths:
        click.echo(f"path: {path}")
    click.echo(f"licence: {info.licence}")
    for key, value in info.counts.items():
        click.echo(f"{_COUNTS.get(key, key.replace('_', ' '))}: {value}")


@command.command(name="path")
@click.argument("name")
def path_(name: str) -> None:
    """Print the folder of a set on this machine."""
    import consilience as cs

    click.echo(str(cs.datasets.path(name)))


def _is_here(name: str) -> bool:
    import consilience as cs

    try:
        return cs.datasets.path(name).exists()
    except cs.exceptions.DataError:
        return False
