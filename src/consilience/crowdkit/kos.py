"""KOS with crowd-kit's parameters: the algorithm of Karger, Oh and Shah (2011) for two labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from consilience.crowdkit.tables import Aggregator, read
from consilience.exceptions import MethodError
from consilience.methods.kos import kos

__all__ = ["KOS"]


@dataclass(eq=False)
class KOS(Aggregator):
    """Messages between tasks and workers; :class:`consilience.KOS` takes more than two labels.

    Parameters
    ----------
    n_iter
        Number of iterations.
    random_state
        Seed of the first messages.
    """

    n_iter: int = 100
    random_state: int = 0

    def fit(self, data: Any) -> Self:
        """Pass messages, and keep the sign of each task's score."""
        a = read(data)
        if a is None:
            self._keep(None, None)
            self.labels_ = self.labels_.astype(object)
            return self
        if a.n_classes != 2:
            raise MethodError(f"KOS is for two labels, and there are {a.n_classes}; consilience.KOS takes more")
        fit = kos(
            a,
            center=False,
            normalize=False,
            prior="uniform",
            max_iter=self.n_iter,
            tol=0.0,
            random_state=self.random_state,
        )
        self._keep(a, fit.posterior)
        return self
