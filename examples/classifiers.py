"""Ten classifiers each label some handwritten digits; their labels are combined without known truth.

Run it with ``python examples/classifiers.py``.  The page ``docs/ensembles.md`` explains what it prints.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import consilience as cs

classifiers = {
    "1 neighbour": KNeighborsClassifier(1),
    "10 neighbours": KNeighborsClassifier(10),
    "10 by cosine": KNeighborsClassifier(10, metric="cosine"),
    "30 neighbours": KNeighborsClassifier(30),
    "tree of 10": DecisionTreeClassifier(max_leaf_nodes=10, random_state=0),
    "tree of 20": DecisionTreeClassifier(max_leaf_nodes=20, random_state=0),
    "tree": DecisionTreeClassifier(random_state=0),
    "linear SVM": SVC(kernel="linear"),
    "quadratic SVM": SVC(kernel="poly", degree=2),
    "Gaussian SVM": SVC(gamma=0.0002),
}

# Each is trained on 60 images of its own and labels between 40 and 80 % of the rest.
images, digits = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(digits))
pool, rest = order[:400], order[400:]
truth = digits[rest]
said = np.full((len(rest), len(classifiers)), -1)  # -1: not labelled
for m, classifier in enumerate(classifiers.values()):
    own = rng.choice(pool, 60, replace=False)
    some = rng.random(len(rest)) < rng.uniform(0.4, 0.8)
    said[some, m] = classifier.fit(images[own], digits[own]).predict(images[rest[some]])

annotations = cs.Annotations.from_matrix(said, annotators=list(classifiers))
print(annotations)

consensus = cs.aggregate(annotations, "rob-symnmf+em")
votes = cs.aggregate(annotations, "majority")
print(f"majority      {votes.error_rate(truth):4.1f} % wrong")
print(f"rob-symnmf+em {consensus.error_rate(truth):4.1f} % wrong")

# The accuracy of every classifier: as estimated, and according to the truth.
estimated = np.asarray(consensus.annotators["accuracy"])
for m, name in enumerate(classifiers):
    labelled = said[:, m] >= 0
    right = np.mean(said[labelled, m] == truth[labelled])
    print(f"{name:14} {labelled.sum():4} labels, accuracy {estimated[m]:.2f}, in truth {right:.2f}")
