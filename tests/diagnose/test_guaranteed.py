"""Guarantees in diagnoses and plans: the figures of the theorems, in sentences."""

from __future__ import annotations

import consilience as cs
from consilience import guarantees
from consilience.diagnose.guaranteed import Guarantees


def test_diagnosis_and_plan_have_the_bounds_of_their_model() -> None:
    crowd = cs.simulate(400, 8, 2, labels_per_item=4, accuracy=(0.7, 0.9), seed=1)
    consensus = cs.aggregate(crowd.annotations)
    found = cs.diagnose(crowd.annotations, consensus=consensus, bootstrap=0).guarantees
    assert found is not None
    assert found.labels_per_item == 4.0
    assert found.error == guarantees.error_bound(consensus.model, 4.0).value
    assert found.labels_needed == guarantees.labels_needed(consensus.model, 0.05)
    assert found.block_error is not None
    assert f"; {found.labels_needed} guarantee at most 5%" in found.sentences[0]
    planned = cs.plan(crowd.annotations, 20, consensus=consensus)
    assert planned.guarantees is not None
    assert planned.guarantees.error == found.error
    assert planned.to_dict()["guarantees"]["labels_needed"] == found.labels_needed


def test_guesses_guarantee_nothing() -> None:
    model = cs.simulate(10, 5, 2, spammers=1.0, seed=0).model
    found = Guarantees.of(model, 5.0)
    assert found is not None
    assert found.to_dict()["error"] is None
    assert found.sentences[0].endswith("guarantee nothing; no number of labels guarantees at most 5%")
