"""Jobs prepared side by side and committed in order."""

from __future__ import annotations

import time

import numpy as np
import pytest

from consilience.kernels import blocks


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_commit_keeps_the_order_of_the_jobs(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "thread_count", lambda: threads)
    naps = np.random.default_rng(0).random((3, 50)) / 1000
    seen: list[list[int]] = [[], []]

    def prepare(job: int) -> int:
        time.sleep(naps[0, job])
        return job

    def commit(step: int, job: int) -> None:
        time.sleep(naps[1 + step, job])
        seen[step].append(job)

    blocks.run_in_order(prepare, [lambda job: commit(0, job), lambda job: commit(1, job)], 50)
    assert seen == [list(range(50))] * 2


@pytest.mark.parametrize("fails", ["prepare", "first", "second"])
def test_an_error_leaves_nobody_waiting(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "thread_count", lambda: 2)
    last: list[int] = []

    def step(name: str, job: int) -> int:
        if name == fails and job == 3:
            raise ValueError(name)
        if name == "second":
            last.append(job)
        return job

    def first(job: int) -> None:
        step("first", job)

    def second(job: int) -> None:
        step("second", job)

    with pytest.raises(ValueError, match=fails):
        blocks.run_in_order(lambda job: step("prepare", job), [first, second], 10)
    assert last == sorted(last)
