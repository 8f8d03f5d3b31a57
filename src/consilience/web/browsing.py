"""Handlers of lists, annotators, agreement, progress, and of accepting many labels."""

from __future__ import annotations

import threading

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from consilience.diagnose.agreement import agreement
from consilience.exceptions import ConsilienceError, ParameterError
from consilience.web import card, lists, progress
from consilience.web.bulk import accept_sampled, draw_sample, sample_of
from consilience.web.filters import Filter
from consilience.web.security import Keys
from consilience.web.session import Review
from consilience.web.site import Site

__all__ = ["Browsing"]


class Browsing(Site):
    """Everything that is not about the next item."""

    def __init__(self, review: Review, keys: Keys) -> None:
        super().__init__(review, keys)
        self._agreement: tuple[list[dict[str, str]] | None, str] = (None, "")
        self._measuring = False

    def items(self, request: Request) -> Response:
        """List items."""
        chosen, page = Filter.of(request.query_params), _page_number(request)
        return self.page(
            request, "items.html", list=lists.items_page(self.review, chosen, request.state.reviewer, page)
        )

    def annotators(self, request: Request) -> Response:
        """List annotators."""
        q = request.query_params.get("q", "")[:200]
        return self.page(request, "annotators.html", list=lists.annotators_page(self.review, _page_number(request), q))

    def annotator(self, request: Request) -> Response:
        """Show the report card of an annotator."""
        m, names = request.path_params["m"], self.review.material.annotators
        if m >= len(names):
            return self.message(request, "There is no such annotator", f"There are {len(names)}.", 404)
        return self.page(request, "annotator.html", a=lists.annotator_page(self.review, m), raw=names[m])

    def agreement(self, request: Request) -> Response:
        """Show how far annotators and reviewers agree; the coefficients are computed once, in the background."""
        if not self._measuring:
            self._measuring = True
            threading.Thread(target=self._measure, daemon=True).start()
        measures, failure = self._agreement
        return self.page(request, "agreement.html", measures=measures, failure=failure, pairs=lists.pairs(self.review))

    def _measure(self) -> None:
        try:
            self._agreement = lists.measures(agreement(self.review.material.labels)), ""
        except ConsilienceError as error:
            self._agreement = [], str(error)

    def progress(self, request: Request) -> Response:
        """Show how far the review is."""
        scale = 100.0 if self.review.now.numbers is None else 1.0
        target = f"{scale * self.review.target:.3g}"
        return self.page(
            request,
            "progress.html",
            status=card.status(self.review),
            p=progress.progress_page(self.review),
            target=target,
            classes=self.review.now.posterior is not None,
        )

    def set_target(self, request: Request, fields: dict[str, str]) -> Response:
        """Set the error to reach: a share of wrong labels, or how far numbers may be off."""
        numbers = self.review.now.numbers is not None
        value = float(fields.get("target", ""))
        if numbers and not 0.0 <= value < np.inf:
            raise ParameterError("the target is a number, 0 or more")
        if not numbers and not 0.0 <= value <= 100.0:
            raise ParameterError("the target is a percentage from 0 to 100")
        self.review.store.set("target", repr(value if numbers else value / 100.0))
        return RedirectResponse("/progress", 303)

    def set_checks(self, request: Request, fields: dict[str, str]) -> Response:
        """Switch random checks on or off."""
        self.review.store.set("checks", "on" if fields.get("checks") == "on" else "off")
        return RedirectResponse("/progress", 303)

    # ---- accepting many labels --------------------------------------------------------------------------

    def accept(self, request: Request) -> Response:
        """Show how many labels could be accepted, and the sample."""
        reviewer, given = request.state.reviewer, request.query_params.get("threshold")
        sample = sample_of(self.review, reviewer)
        threshold = _share(given) if given else sample.threshold if sample else 0.95
        content = progress.accept_page(self.review, reviewer, threshold)
        return self.page(request, "accept.html", a=content)

    def draw(self, request: Request, fields: dict[str, str]) -> Response:
        """Draw a sample."""
        draw_sample(self.review, request.state.reviewer, _share(fields.get("threshold", "")))
        return RedirectResponse(f"/accept?threshold={_share(fields.get('threshold', '')) * 100:g}", 303)

    def judge(self, request: Request, fields: dict[str, str]) -> Response:
        """Decide on a label of the sample."""
        answer = fields.get("answer") or fields.get("instead") or ""
        item = fields.get("item", "")
        ref = self.review.ledger.of(item).newest
        self.review.act("decide", request.state.reviewer, item, answer, ref=ref, seen={"sample": True})
        return RedirectResponse("/accept", 303)

    def accept_all(self, request: Request, fields: dict[str, str]) -> Response:
        """Accept the labels that the sample stands for."""
        accept_sampled(self.review, request.state.reviewer)
        return RedirectResponse("/accept", 303)


def _page_number(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return int(text) if text.isdecimal() and len(text) < 10 else 1


def _share(text: str) -> float:
    value = float(text) / 100.0
    if not 0.0 <= value <= 1.0:
        raise ParameterError("a confidence is a percentage from 0 to 100")
    return value
