r"""CrowdLayer and DL-MV (Rodrigues & Pereira 2018), which Ibrahim & Fu (2022) compare with in Table 9.

A network f maps features to the probabilities of the classes.  CrowdLayer puts a layer for every annotator on top,

    matrix:  s_m = W_m f(x)            W_m (K, K), starting at the identity
    vector:  s_m = w_m ⊙ f(x) + b_m    w_m, b_m (K,), starting at one and zero

and minimises the cross-entropy of softmax(s_m) over the labels that there are.  Without the layer, f predicts the
truth.  DL-MV trains the same network on the most frequent label of every item.

F. Rodrigues and F. C. Pereira, "Deep learning from crowds", AAAI (2018).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted

from consilience.data.annotations import Annotations
from consilience.exceptions import DataError, ParameterError
from consilience.fitting.fit import vote_posterior
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Floats
from consilience.validation import number, one_of, whole

__all__ = ["CrowdLayer", "MajorityNetwork"]


class _Network(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network with one hidden layer and dropout, trained by Adam."""

    def __init__(
        self,
        *,
        hidden: int = 128,
        dropout: float = 0.5,
        epochs: int = 50,
        batch_size: int = 64,
        learning_rate: float = 0.001,
        random_state: int = 0,
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train with features, a row for each item, and labels: a matrix of items × annotators, or Annotations."""
        torch = _torch()
        for name in ("hidden", "epochs", "batch_size"):
            whole(name, getattr(self, name))
        number("learning_rate", self.learning_rate)
        if not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout must be a number from 0 up to 1, not {self.dropout!r}")
        rows, a = check_array(X, dtype=np.float32), as_annotations(y)
        if a.n_items != len(rows):
            raise DataError(f"X has {len(rows)} rows, but the labels are of {a.n_items} items")
        self.classes_, self.n_features_in_ = a.classes, rows.shape[1]
        with torch.random.fork_rng():
            torch.manual_seed(self.random_state)
            self._train(torch, torch.from_numpy(rows), a)
        self.labels_ = self.predict(rows)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes by the network, (N, K)."""
        check_is_fitted(self, "classes_")
        torch = _torch()
        self._network.eval()
        with torch.no_grad():
            made: Floats = self._network(torch.from_numpy(check_array(X, dtype=np.float32))).numpy().astype(np.float64)
        return made

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every item."""
        check_is_fitted(self, "classes_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _train(self, torch: Any, rows: Any, a: Annotations) -> None:
        """Minimise the loss of batches of labelled items."""
        nn, K = torch.nn, a.n_classes
        layers = nn.Linear(rows.shape[1], self.hidden), nn.ReLU(), nn.Dropout(self.dropout), nn.Linear(self.hidden, K)
        self._network = nn.Sequential(*layers, nn.Softmax(dim=1))
        more, loss = self._loss(torch, a)
        optimiser = torch.optim.Adam([*self._network.parameters(), *more], lr=self.learning_rate)
        labelled = torch.from_numpy(np.flatnonzero(a.labels_per_item))
        self.history_: list[float] = []
        self._network.train()
        for _ in range(self.epochs):
            total = 0.0
            for batch in labelled[torch.randperm(len(labelled))].split(self.batch_size):
                optimiser.zero_grad()
                value = loss(self._network(rows[batch]), batch)
                value.backward()
                optimiser.step()
                total += float(value.detach()) * len(batch)
            self.history_.append(total / max(len(labelled), 1))

    def _loss(self, torch: Any, a: Annotations) -> tuple[list[Any], Any]:
        raise NotImplementedError


class MajorityNetwork(_Network):
    """DL-MV: a network trained on the most frequent label of every item.

    Parameters
    ----------
    hidden, dropout
        Units of the hidden layer, and the share of them that is left out in each step.
    epochs, batch_size, learning_rate
        Of Adam.
    random_state
        Seed of weights, batches and dropout.
    """

    def _loss(self, torch: Any, a: Annotations) -> tuple[list[Any], Any]:
        target = torch.from_numpy(vote_posterior(a).argmax(axis=1))
        return [], lambda p, batch: torch.nn.functional.nll_loss(torch.log(p + 1e-9), target[batch])


class CrowdLayer(_Network):
    """A network with a layer for every annotator on top, which is removed after training.

    Parameters
    ----------
    variant
        "matrix" or "vector": what an annotator's layer multiplies the network's probabilities with.
    hidden, dropout, epochs, batch_size, learning_rate, random_state
        As for :class:`MajorityNetwork`.
    """

    def __init__(
        self,
        *,
        variant: Literal["matrix", "vector"] = "matrix",
        hidden: int = 128,
        dropout: float = 0.5,
        epochs: int = 50,
        batch_size: int = 64,
        learning_rate: float = 0.001,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            hidden=hidden,
            dropout=dropout,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            random_state=random_state,
        )
        self.variant = variant

    def _loss(self, torch: Any, a: Annotations) -> tuple[list[Any], Any]:
        one_of("variant", self.variant, ("matrix", "vector"))
        M, K = a.n_annotators, a.n_classes
        said = np.full((a.n_items, M), -1)
        said[a.item_of_label(), a.annotator] = a.label
        said = torch.from_numpy(said)
        if self.variant == "matrix":
            layers = [torch.eye(K).repeat(M, 1, 1).requires_grad_()]
        else:
            layers = [torch.ones(M, K).requires_grad_(), torch.zeros(M, K).requires_grad_()]

        def loss(p: Any, batch: Any) -> Any:
            if self.variant == "matrix":
                scores = torch.einsum("mik,nk->nmi", layers[0], p)
            else:
                scores = layers[0] * p[:, None, :] + layers[1]
            there = said[batch]
            given = there >= 0
            return torch.nn.functional.cross_entropy(scores[given], there[given])

        self.layers_ = layers
        return layers, loss


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise ParameterError("networks need PyTorch: pip install 'consilience[deep]'") from error
