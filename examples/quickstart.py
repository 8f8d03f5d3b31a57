"""From labels to decisions, on the table that comes with the package.

Run it with ``python examples/quickstart.py``.  It writes the folder ``anaesthetists-run``.
"""

from __future__ import annotations

import consilience as cs

# Five anaesthetists rated how fit 45 patients were for anaesthesia, from 1 to 4 (Dawid & Skene 1979).
annotations = cs.datasets.load("dawid_skene").annotations
print(annotations)

consensus = cs.aggregate(annotations, method="ds-em")
print(consensus)

# One row per patient: label, confidence and runner-up.
print(consensus.labels)

# One row per anaesthetist: accuracy and most frequent mistake.
print(consensus.annotators)

# The model itself: confusions[m, i, k] is the probability that annotator m says i of a patient of class k.
first = consensus.model.annotators[0]
print(f"what annotator {first} says (rows) of each true class (columns):")
print(consensus.model.confusions[0].round(2))

consensus.save("anaesthetists-run")
assert cs.load("anaesthetists-run").model == consensus.model
