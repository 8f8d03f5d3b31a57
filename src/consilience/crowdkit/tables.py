"""What all classes share: frames of ``task``, ``worker`` and ``label`` in, pandas tables with crowd-kit's names out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.frames import find_column
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Aggregator", "by_worker", "labels_of", "probas_of", "read"]


class Aggregator:
    """Base of the classes: ``fit`` leaves ``labels_`` and ``probas_``, which the other methods return."""

    labels_: Any  #: series of labels by task, named agg_label
    probas_: Any  #: frame of probabilities, a row for each task and a column for each label

    def fit(self, data: Any) -> Self:
        """Fit the labels of tasks by workers."""
        raise NotImplementedError

    def fit_predict(self, data: Any, *known: Any, **more: Any) -> Any:
        """Fit, and return the labels by task; further arguments are those of ``fit``."""
        return self.fit(data, *known, **more).labels_

    def fit_predict_proba(self, data: Any, *known: Any, **more: Any) -> Any:
        """Fit, and return the probability of each label by task; further arguments are those of ``fit``."""
        return self.fit(data, *known, **more).probas_

    def _keep(self, annotations: Annotations | None, posterior: Floats | None) -> None:
        """Set labels and probabilities; empty ones if there is no data.  Of equally probable labels, the first wins."""
        if annotations is None or posterior is None:
            import pandas as pd

            self.probas_, self.labels_ = pd.DataFrame(), pd.Series(dtype=float, name="agg_label")
        else:
            self.probas_ = probas_of(annotations, posterior)
            self.labels_ = labels_of(annotations, posterior.argmax(axis=1))


def read(data: Any) -> Annotations | None:
    """Return the annotations of a frame, every answer counted; None if it has no rows."""
    columns = [find_column(list(data.columns), role, name, "the frame") for role, name in _COLUMNS.items()]
    return (
        Annotations.from_frame(data[columns], item="task", annotator="worker", label="label", duplicates="keep")
        if len(data)
        else None
    )


_COLUMNS = {"item": "task", "annotator": "worker", "label": "label"}


def labels_of(annotations: Annotations, best: Ints) -> Any:
    """Return a label for each task."""
    import pandas as pd

    index = pd.Index(annotations.items, name="task")
    return pd.Series(annotations.classes[best], index=index, name="agg_label")


def probas_of(annotations: Annotations, posterior: Floats) -> Any:
    """Return the probabilities of each task."""
    import pandas as pd

    index, columns = pd.Index(annotations.items, name="task"), pd.Index(annotations.classes, name="label")
    return pd.DataFrame(posterior, index=index, columns=columns)


def by_worker(annotations: Annotations, values: Floats, name: str) -> Any:
    """Return a number for each worker, in order of their names; workers whose number is NaN are left out."""
    import pandas as pd

    there = ~np.isnan(values)
    index = pd.Index(annotations.annotators[there], name="worker")
    return pd.Series(values[there], index=index, name=name).sort_index()
