"""Data sets of Hugging Face's library are frames."""

from __future__ import annotations

import pandas as pd
import pytest

import consilience as cs
from consilience.exceptions import ConsilienceWarning, ParameterError

datasets = pytest.importorskip("datasets")


def test_a_data_set_is_a_frame_with_the_names_of_its_classes() -> None:
    rows = {"item": [1, 1, 2, 2, 3], "judge": ["a", "b", "a", "b", "a"], "answer": [0, 1, 1, -1, 1]}
    made = datasets.Dataset.from_dict(
        rows,
        features=datasets.Features(
            {
                "item": datasets.Value("int64"),
                "judge": datasets.Value("string"),
                "answer": datasets.ClassLabel(names=["no", "yes"]),
            }
        ),
    )
    expected = pd.DataFrame(rows)[[True, True, True, False, True]].replace({"answer": {0: "no", 1: "yes"}})
    part = made.filter(lambda row: row["answer"] >= 0)
    assert cs.Annotations.from_frame(part) == cs.Annotations.from_frame(expected)
    with pytest.warns(ConsilienceWarning, match="only two annotators"):
        assert cs.aggregate(part, "majority").labels.num_rows == 3
    with pytest.raises(ParameterError, match="choose one of 'train', 'test'"):
        cs.aggregate(datasets.DatasetDict(train=made, test=made))
