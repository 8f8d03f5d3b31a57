"""Forward-backward and Viterbi against all paths, against each other, and against arithmetic that would underflow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.kernels.chains_numpy import NumpySweep

from consilience.exceptions import DataError
from consilience.kernels import chains, chains_log, chains_scaled, em
from consilience.kernels._arrays import Codes, Floats, Ints, code_dtype
from consilience.kernels.chains import ChainStatistics, ChainSweep
from consilience.kernels.em import Sweep

#: The ways to one result: "looped" does not unroll classes, "log" sends every sequence to the kernel in logarithms.
ROUTES = ("scaled", "looped", "log")


@dataclass(frozen=True)
class Chains:
    """Sequences with their labels, and a model of them."""

    bounds: Ints
    indptr: Ints
    annotator: Codes
    symbol: Codes
    gold: Codes | None
    start: Floats
    transitions: Floats
    emissions: Floats

    @property
    def model(self) -> tuple[Floats, Floats, Floats]:
        return self.start, self.transitions, self.emissions

    def sweep(self) -> ChainSweep:
        return ChainSweep(self.bounds, self.indptr, self.annotator, self.symbol, self.gold, *self.emissions.shape)


def random_chains(
    lengths: list[int], K: int, *, M: int = 4, R: int | None = None, most_labels: int = 4, seed: int = 0
) -> Chains:
    """Tokens with 0 to ``most_labels`` random labels, and a random model that never gave them."""
    rng = np.random.default_rng(seed)
    R = R or K
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, most_labels + 1, bounds[-1]))]).astype(np.int64)
    return Chains(
        bounds,
        indptr,
        rng.integers(0, M, indptr[-1]).astype(code_dtype(M)),
        rng.integers(0, R, indptr[-1]).astype(code_dtype(R)),
        None,
        rng.dirichlet(np.ones(K)),
        rng.dirichlet(np.ones(K), K).T,
        rng.dirichlet(np.ones(R), (M, K)).transpose(0, 2, 1),
    )


def take(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if route == "looped":
        monkeypatch.setattr(chains_scaled, "MOST_UNROLLED", 0)
        chains_scaled.kernel.cache_clear()
    if route == "log":
        monkeypatch.setattr(chains, "HEAVIEST", -1.0)


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take one of the code paths, however small the data."""
    take(request.param, monkeypatch)
    yield request.param
    chains_scaled.kernel.cache_clear()


def weights_of(c: Chains, n: int) -> Floats:
    """Pr(labels of token n, gold | truth k), one label at a time."""
    w = np.ones(c.start.size)
    for i in range(c.indptr[n], c.indptr[n + 1]):
        w = w * np.maximum(c.emissions[c.annotator[i], c.symbol[i]], em.FLOOR)
    if c.gold is not None and c.gold[n] >= 0:
        w = np.where(np.arange(w.size) == c.gold[n], w, 0.0)
    return w


def enumerate_paths(c: Chains) -> tuple[Floats, ChainStatistics, list[float]]:
    """Posterior, statistics and the probability of the best path of each sequence, from all K^L paths."""
    K = c.start.size
    posterior = np.zeros((c.indptr.size - 1, K))
    starts, pairs, counts = np.zeros(K), np.zeros((K, K)), np.zeros_like(c.emissions)
    log_likelihood, best = 0.0, []
    for s in range(c.bounds.size - 1):
        begin, end = c.bounds[s], c.bounds[s + 1]
        if begin == end:
            best.append(1.0)
            continue
        weights = [weights_of(c, n) for n in range(begin, end)]
        paths = list(product(range(K), repeat=int(end - begin)))
        p = np.empty(len(paths))
        for j, path in enumerate(paths):
            p[j] = c.start[path[0]] * weights[0][path[0]]
            for t in range(1, len(path)):
                p[j] *= c.transitions[path[t], path[t - 1]] * weights[t][path[t]]
        log_likelihood += float(np.log(p.sum()))
        best.append(float(p.max()))
        for path, share in zip(paths, p / p.sum(), strict=True):
            starts[path[0]] += share
            for t, k in enumerate(path):
                posterior[begin + t, k] += share
                if t:
                    pairs[k, path[t - 1]] += share
    for n in range(c.indptr.size - 1):
        for i in range(c.indptr[n], c.indptr[n + 1]):
            counts[c.annotator[i], c.symbol[i]] += posterior[n]
    return posterior, ChainStatistics(counts, posterior.sum(axis=0), starts, pairs, log_likelihood), best


def assert_same(found: ChainStatistics, expected: ChainStatistics, atol: float = 1e-12) -> None:
    for name in ("counts", "class_counts", "starts", "pairs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-11, atol=atol, err_msg=name)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12, abs=1e-12)


def check_against_all_paths(c: Chains) -> None:
    posterior, statistics, best = enumerate_paths(c)
    sweep = c.sweep()
    for _ in range(2):  # a second pass must not see the first
        assert_same(sweep(*c.model), statistics)
    q, log_likelihood = sweep.posterior(*c.model)
    np.testing.assert_allclose(q, posterior, atol=1e-12)
    assert log_likelihood == pytest.approx(statistics.log_likelihood, rel=1e-12, abs=1e-12)
    path = sweep.decode(*c.model)
    assert path.dtype == np.int32
    for s, probability in enumerate(best):
        p, before = 1.0, -1
        for n in range(c.bounds[s], c.bounds[s + 1]):
            p *= (c.start if before < 0 else c.transitions[:, before])[path[n]] * weights_of(c, n)[path[n]]
            before = path[n]
        assert p == pytest.approx(probability, rel=1e-12)


@pytest.mark.parametrize("K", [1, 2, 3, 4])
@pytest.mark.parametrize("gold", [False, True])
def test_all_paths(route: str, K: int, gold: bool) -> None:
    c = random_chains([3, 0, 5, 1, 1, 4, 2, 0], K, seed=K)
    if gold:
        known = np.random.default_rng(1).integers(-2, K, c.indptr.size - 1)
        c = replace(c, gold=np.maximum(known, -1).astype(np.int32))
    check_against_all_paths(c)


def test_all_paths_where_transitions_are_forbidden(route: str) -> None:
    """O, B, I: I stands after B or I only, and never first."""
    c = random_chains([5, 1, 6, 3, 2], 3, seed=5)
    c.start[2] = c.transitions[2, 0] = 0.0
    gold = np.full(c.indptr.size - 1, -1, np.int32)
    gold[3] = 2
    c = replace(c, start=c.start / c.start.sum(), transitions=c.transitions / c.transitions.sum(axis=0), gold=gold)
    check_against_all_paths(c)
    q, _ = c.sweep().posterior(*c.model)
    assert (q[c.bounds[:-1], 2] == 0).all()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)


def test_more_symbols_than_classes(route: str) -> None:
    check_against_all_paths(random_chains([4, 6, 1], 3, R=12, seed=7))


def test_tokens_without_labels_follow_the_chain(route: str) -> None:
    """With no label at all the posterior is T^n start, and the likelihood one."""
    c = random_chains([6, 3], 3, most_labels=0, seed=2)
    q, log_likelihood = c.sweep().posterior(*c.model)
    expected = [np.linalg.matrix_power(c.transitions, n) @ c.start for n in (*range(6), *range(3))]
    np.testing.assert_allclose(q, expected, atol=1e-13)
    assert log_likelihood == pytest.approx(0.0, abs=1e-13)


@pytest.mark.parametrize("K", [3, 9, 17])
@pytest.mark.parametrize("gold", [False, True])
def test_without_dependence_it_is_the_sweep_over_items(route: str, K: int, gold: bool) -> None:
    c = random_chains([7, 0, 30, 1, 12], K, M=6, most_labels=20, seed=K)
    c = replace(c, transitions=np.tile(c.start[:, None], (1, K)))
    if gold:
        c = replace(c, gold=np.where(np.arange(50) % 4 == 0, np.arange(50) % K, -1).astype(np.int32))
    items = Sweep(c.indptr, c.annotator, c.symbol, c.gold, 6, K)
    q, log_likelihood = items.posterior(c.start, c.emissions)
    found, total = c.sweep().posterior(*c.model)
    np.testing.assert_allclose(found, q, atol=1e-10)
    assert total == pytest.approx(log_likelihood, rel=1e-12)
    np.testing.assert_allclose(c.sweep()(*c.model).counts, items(c.start, c.emissions).counts, atol=1e-10)


@pytest.mark.parametrize("K", [5, 7, 9, 17])
def test_all_routes_agree_with_each_other_and_with_numpy(K: int) -> None:
    rng = np.random.default_rng(K)
    c = random_chains(rng.integers(0, 40, 60).tolist(), K, M=7, R=2 * K, most_labels=25, seed=K)
    c.transitions[rng.random((K, K)) < 0.3] = 0.0
    np.fill_diagonal(c.transitions, 0.5)
    gold = np.full(c.indptr.size - 1, -1, np.int32)
    gold[::17] = np.arange(gold[::17].size) % K
    c = replace(c, transitions=c.transitions / c.transitions.sum(axis=0), gold=None if K == 9 else gold)
    results = []
    for way in ROUTES:
        with pytest.MonkeyPatch.context() as monkeypatch:
            take(way, monkeypatch)
            sweep = c.sweep()
            results.append((sweep(*c.model), sweep.posterior(*c.model)[0], sweep.decode(*c.model)))
        chains_scaled.kernel.cache_clear()
    oracle = NumpySweep(c.sweep())
    results.append((oracle(*c.model), oracle.posterior(*c.model)[0], oracle.decode(*c.model)))
    for statistics, q, path in results[1:]:
        assert_same(statistics, results[0][0], atol=1e-11)
        np.testing.assert_allclose(q, results[0][1], atol=1e-12)
        np.testing.assert_array_equal(path, results[0][2])


def test_two_thousand_labels_on_one_token_do_not_underflow(route: str) -> None:
    """1000 say 0 and 1001 say 1, between tokens without labels: class 1 leads by one vote's odds, carried on by T."""
    T = np.array([[0.8, 0.3], [0.2, 0.7]])
    emissions = np.tile([[0.9, 0.1], [0.1, 0.9]], (1, 1, 1))
    symbol = np.r_[np.zeros(1000), np.ones(1001)].astype(np.uint8)
    c = Chains(
        np.array([0, 3]),
        np.array([0, 0, 2001, 2001]),
        np.zeros(2001, np.uint8),
        symbol,
        None,
        np.array([0.5, 0.5]),
        T,
        emissions,
    )
    q, log_likelihood = c.sweep().posterior(*c.model)
    odds = (T @ c.start)[1] / (T @ c.start)[0] * 9.0
    np.testing.assert_allclose(q[1, 1] / q[1, 0], odds, rtol=1e-8)
    np.testing.assert_allclose(q[2], T @ q[1], rtol=1e-8)
    expected = 1000 * np.log(0.09) + np.log((T @ c.start) @ [0.1, 0.9])
    assert log_likelihood == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("known", [False, True])
def test_a_class_that_fell_out_of_range_comes_back(route: str, known: bool) -> None:
    """The truth never changes; 100 tokens speak for class 0 by 1e-12 each, then 101 (or a known one) for class 1."""
    n = 100 if known else 201
    emissions = np.array([[[1.0, 1e-12], [1e-12, 1.0]]])
    gold = np.full(n, -1, np.int32)
    gold[-1] = 1 if known else -1
    c = Chains(
        np.array([0, n]),
        np.arange(n + 1),
        np.zeros(n, np.uint8),
        np.r_[np.zeros(100), np.ones(n - 100)].astype(np.uint8),
        gold,
        np.array([0.5, 0.5]),
        np.eye(2),
        emissions,
    )
    statistics = c.sweep()(*c.model)
    share = 1.0 if known else 1.0 / (1.0 + 1e-12)
    assert statistics.class_counts[1] == pytest.approx(n * share, rel=1e-13)
    assert statistics.pairs[1, 1] == pytest.approx((n - 1) * share, rel=1e-13)
    assert statistics.log_likelihood == pytest.approx(np.log(0.5) + 100 * np.log(1e-12), rel=1e-12)
    assert (c.sweep().decode(*c.model) == 1).all()


def test_a_class_that_is_out_of_reach_may_fit_ever_so_well(route: str) -> None:
    """Class 1 explains all labels, but no path leads there: its β overflows and must not matter."""
    n = 2000
    c = Chains(
        np.array([0, n]),
        np.arange(n + 1),
        np.zeros(n, np.uint8),
        np.ones(n, np.uint8),
        None,
        np.array([1.0, 0.0]),
        np.array([[1.0, 0.0], [0.0, 1.0]]),
        np.array([[[1.0, 1e-9], [1e-9, 1.0]]]),
    )
    statistics = c.sweep()(*c.model)
    np.testing.assert_array_equal(statistics.class_counts, [n, 0])
    np.testing.assert_allclose(statistics.pairs, [[n - 1, 0], [0, 0]])
    assert statistics.log_likelihood == pytest.approx(n * np.log(1e-9), rel=1e-12)


def test_tiny_transitions_count(route: str) -> None:
    """The one way from the known first truth to the known last one is three transitions of 1e-150 each."""
    T = np.eye(4) + np.diag(np.full(3, 1e-150), -1)
    c = Chains(
        np.array([0, 4]),
        np.zeros(5, np.int64),
        np.empty(0, np.uint8),
        np.empty(0, np.uint8),
        np.array([0, -1, -1, 3], np.int32),
        np.full(4, 0.25),
        T,
        np.full((1, 4, 4), 0.25),
    )
    q, log_likelihood = c.sweep().posterior(*c.model)
    np.testing.assert_allclose(q, np.eye(4), atol=1e-12)
    assert log_likelihood == pytest.approx(np.log(0.25) + 3 * np.log(1e-150), rel=1e-12)


def test_a_tiny_transition_out_of_an_unlikely_class_counts(route: str) -> None:
    """Class 2 explains 60 labels by 1e12 each; the way there, through class 1, costs 1e-140 · 1e-200."""
    n = 60
    T = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1e-200, 1.0]])
    c = Chains(
        np.array([0, n]),
        np.arange(n + 1),
        np.zeros(n, np.uint8),
        np.zeros(n, np.uint8),
        None,
        np.array([1.0, 1e-140, 0.0]),
        T,
        np.array([[[1e-12, 1e-12, 1.0]]]),
    )
    statistics = c.sweep()(*c.model)
    np.testing.assert_allclose(statistics.class_counts, [0, 1, n - 1], atol=1e-10)
    assert statistics.log_likelihood == pytest.approx(np.log(1e-140) + np.log(1e-200) + np.log(1e-12), rel=1e-12)


def test_weights_above_one_only_shift_the_likelihood(route: str) -> None:
    c = random_chains([30, 10], 3, most_labels=40, seed=3)
    scaled = replace(c, emissions=1e8 * c.emissions)
    expected, found = c.sweep()(*c.model), scaled.sweep()(*scaled.model)
    shift = c.symbol.size * np.log(1e8)
    assert_same(found._replace(log_likelihood=found.log_likelihood - shift), expected, atol=1e-10)


def test_ties_go_to_the_lower_class(route: str) -> None:
    c = random_chains([5, 2], 3, most_labels=0)
    c = replace(c, start=np.full(3, 1 / 3), transitions=np.full((3, 3), 1 / 3))
    np.testing.assert_array_equal(c.sweep().decode(*c.model), 0)
    always_change = 0.5 - 0.5 * np.eye(3)
    c = replace(c, start=np.array([0.0, 0.5, 0.5]), transitions=always_change)
    np.testing.assert_array_equal(c.sweep().decode(*c.model), best_lowest(c))


def best_lowest(c: Chains) -> list[int]:
    """Of the best paths of each sequence the one whose last, then last but one, … class is lowest."""
    found: list[int] = []
    for s in range(c.bounds.size - 1):
        scores = {}
        for path in product(range(c.start.size), repeat=int(c.bounds[s + 1] - c.bounds[s])):
            p = c.start[path[0]]
            for t in range(1, len(path)):
                p *= c.transitions[path[t], path[t - 1]]
            scores[path] = p
        top = max(scores.values())
        found += min(path[::-1] for path, p in scores.items() if p == top)[::-1]
    return found


def test_a_long_chain_does_not_drift() -> None:
    """100 000 tokens: the scaled kernel beside the one in logarithms."""
    rng = np.random.default_rng(0)
    N, K = 100_000, 4
    c = random_chains([N], K, M=5, most_labels=5, seed=1)
    c = replace(c, transitions=0.9 * np.eye(K) + 0.1 * rng.dirichlet(np.ones(K), K).T)
    found = c.sweep()(*c.model)
    with pytest.MonkeyPatch.context() as monkeypatch:
        take("log", monkeypatch)
        expected = c.sweep()(*c.model)
    for name in ("counts", "class_counts", "starts", "pairs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-10)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    assert found.pairs.sum() == pytest.approx(N - 1, rel=1e-12)
    np.testing.assert_allclose(found.pairs.sum(axis=1) + found.starts, found.class_counts, rtol=1e-10)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every hundredth sequence begins with ten labels that a known truth makes unheard of: those go to logarithms."""
    c = random_chains(np.random.default_rng(0).integers(1, 40, 8000).tolist(), 4, M=30, most_labels=12, seed=1)
    c.emissions[0, 0, 1] = 0.0
    gold = np.full(c.indptr.size - 1, -1, np.int32)
    n_labels = np.diff(c.indptr)[c.bounds[:-1]]
    strange = [s for s in range(0, 8000, 100) if n_labels[s] >= 10]
    for s in strange:
        gold[c.bounds[s]] = 1
        labels = slice(*c.indptr[c.bounds[s] :][:2])
        c.annotator[labels] = c.symbol[labels] = 0
    redone: list[int] = []
    in_logarithms = chains_log.sweep_kernel("(int64[] int64[] uint8[] uint8[] uint64 int32[] int32[])")

    def spy(sequences: Ints, *rest: Any) -> Any:
        redone.extend(sequences.tolist())
        return in_logarithms(sequences, *rest)

    monkeypatch.setattr(chains_log, "sweep_kernel", lambda *_: spy)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("CONSILIENCE_THREADS", threads)
        sweep = replace(c, gold=gold).sweep()
        assert sweep.share.n > 1
        redone.clear()
        statistics = sweep(*c.model)
        assert sorted(redone) == strange
        q, log_likelihood = sweep.posterior(*c.model)
        arrays = *statistics[:4], q, sweep.decode(*c.model)
        results.append((statistics.log_likelihood, log_likelihood, *(array.tobytes() for array in arrays)))
    assert len(strange) > 10
    assert results[0] == results[1]


def test_tables_beyond_the_cache() -> None:
    """3000 annotators × 16 cells × 16 bytes: the prefetching kernel, against numpy."""
    c = random_chains([20] * 700, 4, M=3000, most_labels=5, seed=4)
    assert_same(c.sweep()(*c.model), NumpySweep(c.sweep())(*c.model), atol=1e-11)


@pytest.mark.parametrize("what", ["sweep", "posterior", "decode"])
def test_an_impossible_sequence_is_named(route: str, what: str) -> None:
    c = random_chains([3, 4, 2, 4], 2, seed=0)
    gold = np.full(13, -1, np.int32)
    gold[[4, 5, 10, 11]] = 0, 1, 0, 1
    c = replace(c, gold=gold, transitions=np.array([[1.0, 0.5], [0.0, 0.5]]))
    sweep = c.sweep()
    call: Any = {"sweep": sweep, "posterior": sweep.posterior, "decode": sweep.decode}[what]
    with pytest.raises(DataError, match=r"sequence 1 .*correct or drop them"):
        call(*c.model)


def test_no_sequences_at_all(route: str) -> None:
    c = random_chains([], 3)
    statistics = c.sweep()(*c.model)
    assert statistics.log_likelihood == 0.0
    assert not statistics.counts.any()
    assert not statistics.pairs.any()
    assert c.sweep().decode(*c.model).size == 0
