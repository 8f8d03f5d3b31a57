"""``consilience simulate``: files of simulated labels whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from consilience.cli.aggregate import SEED

__all__ = ["command"]


@click.command(name="simulate")
@click.option("--items", default=1000, show_default=True, help="Number of items.")
@click.option("--annotators", default=50, show_default=True, help="Number of annotators.")
@click.option("--classes", default=3, show_default=True, help="Number of classes.")
@click.option("--labels-per-item", type=int, help="Number of labels of each item.  [default: 5]")
@click.option("--label-probability", type=float, help="Instead: probability that an annotator labels an item.")
@click.option("--prior", help="Probabilities of the classes, separated by commas.  [default: uniform]")
@click.option("--experts", default=0.0, show_default=True, help="Share of annotators who are nearly always right.")
@click.option("--spammers", default=0.0, show_default=True, help="Share whose labels are random.")
@click.option("--adversaries", default=0.0, show_default=True, help="Share who are systematically wrong.")
@click.option("--specialists", default=0.0, show_default=True, help="Share who always recognise one class.")
@click.option("--colluding", is_flag=True, help="Adversaries agree on their wrong answers.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--out", type=click.Path(), required=True, help="Folder for labels.csv, truth.csv, model.npz and simulation.json."
)
def command(
    items: int,
    annotators: int,
    classes: int,
    labels_per_item: int | None,
    label_probability: float | None,
    prior: str | None,
    experts: float,
    spammers: float,
    adversaries: float,
    specialists: float,
    colluding: bool,
    seed: int,
    out: str,
) -> None:
    """Simulate labels by the Dawid-Skene model and write labels.csv, truth.csv and model.npz."""
    import consilience as cs

    options: dict[str, Any] = {
        "n_items": items,
        "n_annotators": annotators,
        "n_classes": classes,
        "labels_per_item": labels_per_item,
        "label_probability": label_probability,
        "prior": None if prior is None else _probabilities(prior),
        "experts": experts,
        "spammers": spammers,
        "adversaries": adversaries,
        "specialists": specialists,
        "colluding": colluding,
        "seed": seed,
    }
    made = cs.simulate(**options)
    _write(Path(out), made, options)
    click.echo(
        f"{made.annotations.n_labels} labels of {made.annotations.n_items} items by {annotators} annotators: "
        f"{out}/labels.csv, {out}/truth.csv, {out}/model.npz"
    )


def _probabilities(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a list of numbers separated by commas", param_hint="--prior"
        ) from None


def _write(folder: Path, made: Any, options: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.csv

    from consilience.files import atomic_folder

    annotations = made.annotations
    with atomic_folder(folder, "simulation.json") as fresh:
        content = {"format": "consilience.Simulation", "version": 1, **options}
        (fresh / "simulation.json").write_text(json.dumps(content, indent=2) + "\n", "utf-8")
        frame = annotations.to_frame("pyarrow")
        pyarrow.csv.write_csv(frame.rename_columns(["task", "worker", "label"]), fresh / "labels.csv")
        classes = annotations.class_ids.to_arrow()
        truth = {"task": annotations.item_ids.to_arrow(), "label": classes.take(pa.array(made.truth))}
        pyarrow.csv.write_csv(pa.table(truth), fresh / "truth.csv")
        made.model.save(fresh / "model.npz")
