"""What items show: fields, files, spans and boxes; and which files are never served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.web.conftest import client_of

import consilience as cs
from consilience.web.filters import Filter
from consilience.web.material import Material
from consilience.web.start import open_review
from consilience.web.task_data import blocks_of, file_behind, read_task_data

#: The smallest GIF: one pixel.
PIXEL = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)


def material(items: list[Any]) -> Material:
    rows = [(item, who, n % 2) for n, item in enumerate(items) for who in ("a", "b")]
    return Material(cs.Annotations.from_frame(pd.DataFrame(rows, columns=["item", "worker", "label"])))


def test_a_table_is_joined_by_the_column_of_ids(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text("nr,key,text,site\n1,b,second text,X\n2,a,first text,Y\n3,zz,other,Z\n")
    found = read_task_data(path, material(["a", "b"]))
    assert dict(found.fields[0]) == {"text": "first text", "nr": "2", "site": "Y"}
    assert [(b.kind, b.name) for b in blocks_of(found, 0, "a", None, remote=False)] == [
        ("text", "text"),
        ("field", "nr"),
        ("field", "site"),
    ]
    assert 2 not in found.fields


def test_numbers_are_ids_too(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps({"id": n, "text": f"text {n}"}) + "\n" for n in (11, 12)))
    assert dict(read_task_data(path, material([11, 12])).fields[1]) == {"text": "text 12"}


def label_studio(tmp_path: Path) -> Path:
    def result(kind: str, **value: Any) -> dict[str, Any]:
        return {"from_name": kind, "to_name": "x", "type": kind, "value": value}

    tasks = []
    for n in range(4):
        made = []
        for who in (1, 2, 3):
            results = [result("choices", choices=["spam" if (n + who) % 3 else "ham"])]
            if n == 0:
                results.append(result("labels", start=0, end=4, text="Free", labels=["BAIT"]))
                results.append(result("rectanglelabels", x=10, y=20, width=30, height=40, rectanglelabels=["logo"]))
            made.append({"completed_by": {"id": who, "email": f"w{who}@x.org"}, "result": results})
        data = {"text": f"Free money {n} <b>now</b>", "image": "pixel.gif", "page": "https://example.org/a"}
        tasks.append({"id": 100 + n, "data": data, "annotations": made})
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    (tmp_path / "pixel.gif").write_bytes(PIXEL)
    return path


def test_an_export_shows_text_image_spans_and_boxes(tmp_path: Path) -> None:
    made = open_review(label_studio(tmp_path), "majority", reading={"question": "choices"})
    made.live.start()
    assert made.live.wait(30)
    client = client_of(made)
    n = made.material.find("100")
    text = client.get(f"/item/{n}").text
    assert "money 0 &lt;b&gt;now&lt;/b&gt;" in text
    assert '<mark title="BAIT (1, 2, 3)">Free' in text  # as the labels name them
    assert f'<img src="/media/{n}/1"' in text
    assert text.count('<rect x="10.0" y="20.0" width="30.0" height="40.0">') == 3
    assert 'href="https://example.org/a" target="_blank" rel="noopener noreferrer"' in text
    assert [made.material.key(int(n)) for n in made.listed(Filter(flag="all", q="MONEY 2"), "Ada")] == ["102"]
    image = client.get(f"/media/{n}/1")
    assert image.body == PIXEL
    assert image.headers["content-type"] == "image/gif"
    assert client.get(f"/media/{n}/0").status == 404  # a text is no file
    answer = client.get("/export/labels?format=label-studio")
    assert answer.status == 200, answer.text
    assert len(answer.json) == 4
    made.live.stop()
    made.store.close()


@pytest.mark.parametrize(
    "value",
    ["../secret.png", "/etc/passwd", "notes.txt", "link.png", "sub/../../secret.png", "file:///etc/hosts", "a\0.png"],
)
def test_only_media_below_the_folder_are_served(tmp_path: Path, value: str) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "sub").mkdir()
    (tmp_path / "secret.png").write_bytes(PIXEL)
    (folder / "notes.txt").write_text("private")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    path = folder / "tasks.jsonl"
    path.write_text(json.dumps({"item": "a", "image": value}) + "\n")
    found = read_task_data(path, material(["a", "b"]))
    assert file_behind(found, 0, 0) is None
    assert all(block.kind in ("text", "field") for block in blocks_of(found, 0, "a", None, remote=False))


def test_media_from_the_web_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        json.dumps({"item": "a", "image": "https://example.org/x.png?size=2", "audio": "https://e.org/x.mp3"})
    )
    found = read_task_data(path, material(["a", "b"]))
    assert [b.kind for b in blocks_of(found, 0, "a", None, remote=False)] == ["link", "link"]
    assert [b.kind for b in blocks_of(found, 0, "a", None, remote=True)] == ["image", "audio"]


def test_scripts_are_no_links(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"item": "a", "url": "javascript:alert(1)"}))
    found = read_task_data(path, material(["a", "b"]))
    assert [b.kind for b in blocks_of(found, 0, "a", None, remote=True)] == ["text"]


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ("HITId,WorkerId,AssignmentStatus,Title,Input.image,Answer.kind.label", {"image"}),
        ("INPUT:image,OUTPUT:kind,GOLDEN:kind,ASSIGNMENT:task_id,ASSIGNMENT:worker_id,ASSIGNMENT:status", {"image"}),
        ("_unit_id,_worker_id,_trust,kind,kind_gold,kind:confidence,text", {"text"}),
    ],
)
def test_what_workers_said_is_not_shown_as_the_item(tmp_path: Path, header: str, fields: set[str]) -> None:
    names = header.split(",")
    rows = []
    for item, who in [("a", "w1"), ("a", "w2"), ("b", "w1"), ("b", "w2")]:
        known = {"HITId": item, "ASSIGNMENT:task_id": item, "_unit_id": item, "_trust": "0.9"}
        known |= dict.fromkeys(("WorkerId", "ASSIGNMENT:worker_id", "_worker_id"), who)
        known |= dict.fromkeys(("Answer.kind.label", "OUTPUT:kind", "kind"), "cat" if item == "a" else "dog")
        known |= dict.fromkeys(("AssignmentStatus", "ASSIGNMENT:status"), "Approved")
        rows.append([known.get(name, "" if "gold" in name.lower() else f"the {name}") for name in names])
    path = tmp_path / ("export.tsv" if "INPUT" in header else "export.csv")
    pd.DataFrame(rows, columns=names).to_csv(path, index=False, sep="\t" if "INPUT" in header else ",")
    made = open_review(path)
    assert {name for shown in made.tasks.fields.values() for name in shown} == fields
    made.store.close()


def test_columns_of_annotators_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("id,ann,ben,text\n1,cat,dog,first\n2,cat,cat,second\n")
    labels = cs.Annotations.from_frame(
        pd.DataFrame([(n, w, "cat") for n in (1, 2) for w in ("ann", "ben")], columns=["item", "worker", "label"])
    )
    found = read_task_data(tmp_path / "wide.csv", Material(labels))
    assert dict(found.fields[1]) == {"text": "second"}


def test_spans_of_prodigy_and_doccano(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    rows = [
        {
            "item": "a",
            "text": "Ada met Bob",
            "spans": [{"start": 0, "end": 3, "label": "PER"}, {"start": 2, "end": 7, "label": "X"}],
        },
        {"item": "b", "text": "Ada met Bob", "label": [[8, 11, "PER"]]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_task_data(path, material(["a", "b"]))
    first, second = (blocks_of(found, n, "", None, remote=False)[0] for n in (0, 1))
    assert first.parts == (("Ad", "PER"), ("a", "PER; X"), (" met", "X"), (" Bob", ""))
    assert second.parts == (("Ada met ", ""), ("Bob", "PER"))
