"""``consilience cluster``: a table of features in, clusters of samples near subspaces or curves out."""

from __future__ import annotations

from typing import Any

import click

from consilience.cli.aggregate import SEED

__all__ = ["command"]


@click.command(name="cluster")
@click.argument("features", type=click.Path())
@click.option("--clusters", type=int, required=True, help="Number of clusters.")
@click.option(
    "--representation",
    type=click.Choice(["lsr", "ssc", "lrr"]),
    default="lsr",
    show_default=True,
    help="How samples are represented: least squares, sparse, or of low rank.",
)
@click.option("--batch", is_flag=True, help="Represent each sample by all others, for small tables.")
@click.option(
    "--kernel",
    type=click.Choice(["rbf", "laplacian", "polynomial"]),
    help="For curved clusters.",
)
@click.option("--affine", is_flag=True, help="Subspaces need not pass through the origin.")
@click.option("--normalise", is_flag=True, help="First scale every sample to length one.")
@click.option("--refine", type=int, default=0, show_default=True, help="Most steps of K-subspaces afterwards.")
@click.option("--item", help="Name of the column that names the samples.  [default: recognised]")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a text file.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--out", type=click.Path(), help="File for the cluster of each sample, as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print sizes and dimensions of clusters as JSON.")
def command(
    features: str,
    clusters: int,
    representation: str,
    batch: bool,
    kernel: str | None,
    affine: bool,
    normalise: bool,
    refine: int,
    item: str | None,
    encoding: str,
    seed: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Cluster the samples of FEATURES, a table with a row for each sample and columns of numbers, or a .npy array.

    Samples of a cluster lie near a subspace, or with --kernel near a curve or surface.
    """
    import numpy as np

    import consilience as cs
    from consilience.cli import _output
    from consilience.io.features import read_features

    read = read_features(features, item=item, encoding=encoding)
    X = read.values
    if normalise:
        from sklearn.preprocessing import normalize

        X = normalize(np.nan_to_num(X.reshape(len(X), -1))).reshape(X.shape)
    common: dict[str, Any] = {"representation": representation, "affine": affine, "random_state": seed}
    if batch and (kernel or refine):
        raise click.UsageError("--batch has no --kernel and no --refine; leave it out")
    with _output.waiting("clustering"):
        if batch:
            model: Any = cs.SubspaceClustering(clusters, **common).fit(X)
        else:
            model = cs.SketchedSubspaceClustering(clusters, kernel=kernel, refine=refine, **common).fit(X)
    sizes = np.bincount(model.labels_, minlength=clusters)
    if out is not None:
        _write(out, read.item, read.items, model.labels_)
    if as_json:
        _output.show_json({"N": len(X), "sizes": sizes.tolist(), "dimensions": model.dimensions_.tolist()})
        return
    click.echo(f"{len(X)} samples with {len(read.names)} features in {clusters} clusters")
    for k in range(clusters):
        click.echo(f"cluster {k}: {sizes[k]} samples near a subspace of dimension {model.dimensions_[k]}")
    if out is not None:
        click.echo(_output.safe(f"Written to {out}"))


def _write(out: str, name: str, items: Any, labels: Any) -> None:
    import pyarrow as pa
    import pyarrow.csv

    from consilience.files import atomic_file

    with atomic_file(out) as fresh:
        pyarrow.csv.write_csv(pa.table({name: items, "cluster": pa.array(labels)}), fresh)
