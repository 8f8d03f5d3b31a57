"""GLAD with crowd-kit's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from consilience.crowdkit.tables import Aggregator, by_worker, read
from consilience.exceptions import ParameterError
from consilience.methods.glad import fit_glad

__all__ = ["GLAD"]


@dataclass(eq=False)
class GLAD(Aggregator):
    """An ability for every worker, ``alphas_``, and an ease for every task, ``betas_``; see :class:`consilience.GLAD`.

    Parameters
    ----------
    n_iter
        Largest number of EM steps.
    tol
        EM ends when a step changes the objective by less than this share.
    silent, m_step_max_iter, m_step_tol
        Not used: there is no progress bar, and the M-step takes Newton steps.
    labels_priors, alphas_priors_mean, betas_priors_mean
        Must be None: the prior of labels is uniform, the means of the others are one.
    """

    n_iter: int = 100
    tol: float = 1e-5
    silent: bool = True
    labels_priors: Any = None
    alphas_priors_mean: Any = None
    betas_priors_mean: Any = None
    m_step_max_iter: int = 25
    m_step_tol: float = 1e-2

    def fit(self, data: Any) -> Self:
        """Fit by EM."""
        import pandas as pd

        for name in ("labels_priors", "alphas_priors_mean", "betas_priors_mean"):
            if getattr(self, name) is not None:
                raise ParameterError(f"{name} cannot be set here: the means of all priors are fixed")
        a = read(data)
        if a is None:
            self._keep(None, None)
            self.alphas_, self.betas_ = pd.Series(dtype=float, name="alpha"), pd.Series(dtype=float, name="beta")
            self.loss_history_: list[float] = []
            return self
        fit = fit_glad(a, max_iter=self.n_iter, tol=self.tol)
        self._keep(a, fit.posterior)
        self.alphas_ = by_worker(a, fit.ability, "alpha")
        self.betas_ = pd.Series(fit.ease, index=pd.Index(a.items, name="task"), name="beta")
        self.priors_ = pd.Series(fit.prior, index=pd.Index(a.classes, name="label"), name="prior")
        self.loss_history_ = fit.history
        return self
