"""``consilience datasets``: public data sets, their origin, and their folders on this machine."""

from __future__ import annotations

import click

from consilience.cli import Verbs

__all__ = ["command"]


@click.group(name="datasets", cls=Verbs)
def command() -> None:
    """Look up public data sets.

    Sets other than the bundled 1979 table are read from the folder that CONSILIENCE_DATA names.
    """


@command.command(name="list")
def list_() -> None:
    """List the sets with their sizes."""
    from rich.console import Console
    from rich.table import Table

    import consilience as cs

    table = Table(box=None, header_style="bold")
    for name in ("name", "kind", "size", "here", "what it is"):
        table.add_column(name, overflow="fold")
    for name in cs.datasets.names():
        info = cs.datasets.info(name)
        size = ", ".join(f"{value} {key}" for key, value in list(info.counts.items())[:4])
        table.add_row(name, info.kind, size, "yes" if _is_here(name) else "no", info.summary)
    Console(highlight=False).print(table)
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
        click.echo(f"{key}: {value}")


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
