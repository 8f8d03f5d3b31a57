"""Run the code of the documentation, and compare its output with what the pages show.

In README.md and docs/, each page in a namespace and an empty folder of its own:

* a ``python`` block is executed, unless the fence says ``python no-run``;
* the ``consilience`` lines of a ``bash`` block are run, unless the fence says ``bash no-run``;
* a ``text`` block directly below either must show printed lines, in order; ``…`` stands for any lines.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import consilience as cs
from consilience.cli import cli, main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
LINKING = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    runs: bool
    text: str
    line: int
    follows: bool  #: whether it directly follows the previous block


def blocks_of(page: str) -> Iterator[Block]:
    end = 0
    for fence in _FENCE.finditer(page):
        language, *words = fence["info"].split() or [""]
        line = page.count("\n", 0, fence.start()) + 1
        follows = not page[end : fence.start()].strip()
        yield Block(language, "no-run" not in words, fence["text"], line, follows)
        end = fence.end()


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def run_python(block: Block, page: Path, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    # leading blank lines make tracebacks show the line of the page
    code = compile("\n" * block.line + block.text, str(page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_commands(block: Block) -> str:
    printed = ""
    for command in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(command, comments=True)
        if words[:1] == ["consilience"]:
            result = CliRunner().invoke(cli, words[1:], catch_exceptions=False)
            assert result.exit_code == 0, f"{command}: {result.output}"
            printed += result.stdout
    return printed


def plain_lines(text: str) -> list[str]:
    """Return the lines without what differs between runs: spaces between columns, seconds and passes."""
    spaced = (" ".join(line.split()) for line in text.splitlines() if line.strip())
    return [re.sub(r"\b[\d.]+ (s|passes)\b", r"… \1", line) for line in spaced]


def check_output(shown: str, printed: str, where: str) -> None:
    remaining = iter(plain_lines(printed))
    for line in plain_lines(shown):
        assert line == "…" or line in remaining, f"{where} shows {line!r}, but this was printed:\n{printed}"


@pytest.fixture
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for variable in ("CONSILIENCE_DATA", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("_empty_folder")
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_code_and_commands_do_what_the_page_shows(page: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    printed: str | None = None
    for block in blocks_of(page.read_text("utf-8")):
        if block.language == "text" and block.follows and printed is not None:
            check_output(block.text, printed, f"{named(page)}, line {block.line},")
        printed = None
        if block.language == "python" and block.runs:
            printed = run_python(block, page, namespace)
        elif block.language == "bash" and block.runs:
            printed = run_commands(block)


@pytest.mark.usefixtures("_empty_folder")
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=named)
def test_examples_run(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


# ---- completeness --------------------------------------------------------------------------------


def commands_of(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for verb in command.list_commands(context):
            inner = command.get_command(context, verb)
            assert inner is not None
            yield from commands_of(inner, f"{name} {verb}")


COMMANDS = dict(commands_of(cli, "consilience"))


def section_of(page: str, heading: str) -> str:
    """Return the text between a heading and the next one."""
    found = re.search(rf"^#+ `{re.escape(heading)}`\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"docs/command-line.md has no section `{heading}`"
    return found[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_and_option_is_documented(name: str) -> None:
    section = section_of((DOCS / "command-line.md").read_text("utf-8"), name)
    for parameter in COMMANDS[name].get_params(click.Context(COMMANDS[name])):
        if isinstance(parameter, click.Argument):
            assert f"`{parameter.human_readable_name}`" in section
        for option in parameter.opts if isinstance(parameter, click.Option) else []:
            described = option in ("-h", "--help") or re.search(rf"`{re.escape(option)}[ `]", section)
            assert described, f"docs/command-line.md: `{name}` does not describe {option}"


@pytest.mark.parametrize("name", cs.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert re.search(rf"\bconsilience\.{re.escape(name)}\b", (DOCS / "api.md").read_text("utf-8"))


@pytest.mark.parametrize("name", [*cs.METHODS, "+em"])
def test_every_method_is_in_the_table_of_methods(name: str) -> None:
    page = (DOCS / "methods.md").read_text("utf-8")
    assert re.search(rf"^\| `[^|]*{re.escape(name)}` \|", page, re.MULTILINE)


@pytest.mark.parametrize("name", cs.METHODS)
def test_every_method_has_its_reference(name: str) -> None:
    page = (DOCS / "references.md").read_text("utf-8")
    row = next(row for row in page.splitlines() if row.startswith("|") and f"`{name}`" in row.split("|")[1])
    known = set(re.findall(r"^@\w+\{(\w+),", (DOCS / "references.bib").read_text("utf-8"), re.MULTILINE))
    cited = set(re.findall(r"`(\w+)`", row.split("|")[2]))
    assert cited <= known
    assert cited or name == "majority"


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {cs.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version = {{{cs.__version__}}}" in (DOCS / "references.bib").read_text("utf-8")


@pytest.mark.parametrize("page", LINKING, ids=named)
def test_links_exist(page: Path) -> None:
    whole = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", whole)):
        if target.startswith("_gallery/"):  # drawn by the documentation build from the code of the page
            assert f'where="{target.removeprefix("_gallery/")}"' in whole
        elif "://" not in target:
            assert (page.parent / target.partition("#")[0]).exists(), f"{named(page)} links to {target}"


# ---- messages for bad input --------------------------------------------------------------------------------

_HEAD = "task,worker,label\n"
_JSON = '{"task": 7, "worker": "a", "label": "x"}\n'
_THREE = _HEAD + "1,a,x\n1,b,y\n1,c,x\n2,a,y\n2,b,y\n2,c,x\n"

_BATCH = "HITId,WorkerId,AssignmentStatus,Answer.a,Answer.b\n"
_DONE = "H1,W1,Approved,x,1\nH1,W2,Approved,y,1\nH1,W3,Rejected,x,1\n"

#: Files with the options to read them; docs/input.md lists the messages.
BAD_FILES: list[tuple[str, str | bytes, dict[str, Any]]] = [
    ("labels.csv", "", {}),
    ("labels.csv", _HEAD, {}),
    ("labels.dat", _THREE, {}),
    ("labels.csv", "task,who,label\n1,a,x\n", {}),
    ("labels.csv", "task,who,label\n1,a,x\n", {"annotator": "whom"}),
    ("labels.csv", "task,Task,worker,label\n1,1,a,x\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n,b,y\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n1,,y\n2,nan,x\n", {}),
    ("labels.csv", _HEAD + "1,a,\n2,b,NaN\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n1,b,x,y\n", {}),
    ("labels.csv", (_HEAD + "1,a,café\n").encode("latin-1"), {}),
    ("labels.csv", _HEAD + "1,a,x\n1,a,y\n1,a,x\n1,b,x\n", {"duplicates": "error"}),
    ("labels.csv", _HEAD + "1,a,x\n1,b,y\n", {"classes": ["x"]}),
    ("labels.jsonl", _JSON + '{"task": "7", "worker": "b", "label": "x"}\n', {}),
    ("labels.jsonl", _JSON + '{"task": 8, "worker":\n', {}),
    ("labels.csv", _THREE, {"gold": {1: "z"}}),
    ("labels.csv", _THREE, {"gold": {98: "x", 99: "y"}}),
    ("labels.csv", _HEAD + "".join(f"{n},a{n % 50},class {n}\n" for n in range(30_000)), {}),
    ("batch.csv", _BATCH + _DONE, {}),
    ("batch.csv", _BATCH + _DONE, {"question": "c"}),
    ("batch.csv", _BATCH + _DONE, {"question": "a"}),
    ("batch.csv", _BATCH + "H1,W3,Rejected,x,1\n", {"question": "a"}),
    ("labels.csv", _THREE, {"format": "label-studio"}),
    ("export.json", '[{"id"', {}),
    ("labels.csv", _HEAD + "1,a,x\n1,b,y\n1,c,x\n2,a,\n3,b,\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n1,a,y\n1,a,x\n1,b,x\n1,c,y\n", {}),
    ("labels.csv", _THREE, {"classes": ["x", "y", "z"]}),
    ("labels.csv", _HEAD + "1,a,x\n2,a,y\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n1,b,y\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n1,b,x\n1,c,x\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n2,b,y\n3,c,x\n", {}),
    ("labels.csv", _HEAD + "1,a,x\n1,b,y\n2,c,x\n2,d,x\n3,e,y\n3,f,y\n", {}),
    ("labels.csv", _THREE, {"gold": {1: "x", 98: "x", 99: "y"}}),
    ("labels.csv", _HEAD + "1,a,yes\n1,b,Yes\n1,c,yes\n2,a,no\n2,b,no\n2,c,no\n", {}),
]


def messages_about(data: Any) -> set[str]:
    """Return all warnings and errors between reading and labelling."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cs.exceptions.ConsilienceWarning)
        said = set()
        try:
            cs.aggregate(data())
        except cs.exceptions.ConsilienceError as error:
            said.add(str(error))
    return said | {str(w.message) for w in caught if issubclass(w.category, cs.exceptions.ConsilienceWarning)}


def mixed_frame() -> cs.Annotations:
    import pandas as pd

    frame = pd.DataFrame({"task": [7, "7"], "worker": ["a", "b"], "label": ["x", "x"]})
    return cs.Annotations.from_frame(frame)


def unknown_frame() -> Any:
    import pandas as pd

    return pd.DataFrame({"doc": list("aabb"), "who": list("xyxy"), "verdict": ["p", "q", "p", "p"]})


def sparse_matrix() -> Any:
    import scipy.sparse

    return scipy.sparse.eye_array(3)


def truth_of_an_unused_class() -> cs.Annotations:
    Path("labels.csv").write_text(_THREE)
    cs.aggregate("labels.csv", "majority").error_rate({1: "x", 2: "z"})
    return cs.read("labels.csv")


def truncated_parquet() -> cs.Annotations:
    place = Path("labels.parquet")
    pq.write_table(pa.table({"task": [1], "worker": ["a"], "label": ["x"]}), place)
    place.write_bytes(place.read_bytes()[:-10])
    return cs.read(place)


@pytest.mark.usefixtures("_empty_folder")
def test_the_table_of_bad_input_has_the_real_messages() -> None:
    page = (DOCS / "input.md").read_text("utf-8").partition("## What bad input gets")[2]
    shown = set(re.findall(r"\| `([^`|]+)` \|$", page, re.MULTILINE))
    said = messages_about(lambda: cs.read("labels.csv")) | messages_about(lambda: [[0, 1], [1]])
    for data in (mixed_frame, unknown_frame, sparse_matrix, truth_of_an_unused_class, truncated_parquet):
        said |= messages_about(data)
    for name, content, options in BAD_FILES:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        said |= messages_about(lambda name=name, options=options: cs.read(name, **options))
    # a message that ends in … continues with the words of another library
    whole = {message for message in shown if not message.endswith("…")}
    begun = tuple(message.removesuffix("…") for message in shown - whole)
    assert {message for message in said if not message.startswith(begun)} == whole
    assert all(any(message.startswith(start) for message in said) for start in begun)


def _on_command_line(name: str, options: dict[str, Any]) -> list[str]:
    """Return the words of a command that reads a file with these options; known answers go into a file."""
    words = ["aggregate", name]
    for option, value in options.items():
        if option == "gold":
            Path("gold.csv").write_text("task,label\n" + "".join(f"{k},{v}\n" for k, v in value.items()))
            value = "gold.csv"
        words += [f"--{option}", str(value)]
    return words


@pytest.mark.usefixtures("_empty_folder")
@pytest.mark.parametrize(("name", "content", "options"), [case for case in BAD_FILES if "classes" not in case[2]])
def test_bad_input_ends_the_command_line_with_one_sentence(
    name: str, content: str | bytes, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        try:
            cs.aggregate(cs.read(name, **options))
            expected = ""
        except cs.exceptions.ConsilienceError as error:
            expected = f"Error: {error}\n"
    with pytest.raises(SystemExit) as end:
        main([*_on_command_line(name, options), "--out", "run"])
    printed = capsys.readouterr()
    if not expected:
        assert not end.value.code
        assert "Error" not in printed.err
        return
    assert (end.value.code, printed.out) == (1, "")
    assert printed.err == expected
    assert printed.err.count("\n") == 1
    assert not Path("run").exists()
