"""Nine language models judge answers with correlated errors: what they are worth, and how many human labels they need.

Run it with ``python examples/llm_judges.py``.  The page ``docs/llm-judges.md`` explains what it prints.
"""

from __future__ import annotations

import warnings

import numpy as np

import consilience as cs

# How often each judge accepts a good answer and rejects a bad one.  Small models are lenient.
judges = {
    "north-small": (0.88, 0.45),
    "north-chat": (0.90, 0.50),
    "north-large": (0.90, 0.86),
    "south-small": (0.86, 0.42),
    "south-chat": (0.92, 0.55),
    "south-large": (0.88, 0.90),
    "east-small": (0.90, 0.40),
    "east-large": (0.86, 0.84),
    "west-small": (0.55, 0.85),
}
families = [name.split("-")[0] for name in judges]
classes = np.array(["bad", "good"])


def panel(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Simulate truths, and verdicts with correlated errors: within families, and on answers that fool all judges."""
    good = rng.random(n) < 0.5
    fools_all = rng.random(n) < 0.10
    fools = {family: fools_all | (rng.random(n) < 0.03) for family in dict.fromkeys(families)}
    verdicts = []
    for family, (accepts, rejects) in zip(families, judges.values(), strict=True):
        right = rng.random(n) < np.where(good, accepts, rejects)
        fooled = fools[family] & (rng.random(n) < 0.85)
        verdicts.append(np.where(fooled, ~good, right == good))
    return good.astype(int), np.stack(verdicts, axis=1).astype(int)


rng = np.random.default_rng(1)
truth, said = panel(2000, rng)
annotations = cs.Annotations.from_matrix(classes[said], annotators=list(judges))
print(annotations)

# Human labels come from the first thousand answers; the other thousand measure the result.
judged = np.where(np.arange(2000) >= 1000, truth, -1)


def scores(run: cs.Consensus) -> tuple[float, float, float]:
    """Return error in percent, calibration error and log-loss on the second thousand."""
    labels = run.choice.best
    return (
        cs.metrics.error_rate(labels, judged),
        cs.metrics.expected_calibration_error(run.posterior, judged, labels=labels),
        cs.metrics.log_loss(run.posterior, judged),
    )


print("\nmethod    error %  calibration error  log-loss")
for method in ("majority", "auto"):
    print("{:8} {:8.1f} {:18.2f} {:9.2f}".format(method, *scores(cs.aggregate(annotations, method))))

# Human labels for some of the first thousand answers; means over three random choices.
warnings.simplefilter("ignore", cs.exceptions.DataWarning)  # they contradict the judges, which is the point here
print("\nhuman labels  error %  calibration error  log-loss  effective judges")
for n in (0, 50, 100, 200, 400):
    runs = []
    for seed in range(3 if n else 1):
        chosen = np.random.default_rng(seed).choice(1000, n, replace=False)
        run = cs.aggregate(annotations, gold={int(i): classes[truth[i]] for i in chosen} if n else None)
        runs.append((*scores(run), run.effective_annotators or np.nan))
    print("{:12} {:8.1f} {:18.2f} {:9.2f} {:17.1f}".format(n, *np.mean(runs, axis=0)))
