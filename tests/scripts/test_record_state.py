"""A record is stale if code on which its figures depend changed, and no other change makes it so."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import generate_docs
from freshness import record_rows, sources
from freshness.record_rows import ROWS, RecordRow
from freshness.record_state import FRESH, MISSING, STALE, UNSHOWN, state_of, states
from freshness.sources import FOLDERS, ROOT, code_hash, hashes, kernel_files, tree_here
from harness import run_record
from harness.run_record import Record, gpu_parser, gpu_record, write_record
from tests.scripts.record_doubles import OPERATORS, ROW, alone_in_the_table
from trtsmith.converter.plugin.machine import commit_of

BEV_POOL = {"h200/bench_catalogue.json", "h100/kernel_forms.json"}
EVERY_KERNEL = {row.file for row in ROWS if any(part.operators == () for part in row.rests_on)}
RULES = {row.file for row in ROWS if record_rows.RULES in row.rests_on}
JUDGE = {row.file for row in ROWS if record_rows.JUDGE in row.rests_on}


def test_verdicts_rest_on_rules_and_judge_and_times_on_kernels_of_their_own() -> None:
    assert {"popular_networks.json", "real_models.json", "h200/popular_networks.json"} <= RULES & JUDGE
    assert not {"h200/bench.json", "h200/selection.json"} & (RULES | JUDGE | EVERY_KERNEL)
    assert "judge.json" in JUDGE - RULES and "h200/networks.json" in RULES - EVERY_KERNEL - BEV_POOL


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the sources."""
    root = tmp_path_factory.mktemp("checkout")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "lib"))
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    return root


def write(root: Path, row: RecordRow, record: Mapping[str, Any]) -> None:
    path = root / "benchmarks" / row.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))


@pytest.fixture
def changed(checkout: Path) -> Iterator[Path]:
    """The repository, whose sources a test may change: they are put back."""
    tree_here.cache_clear()
    yield checkout
    subprocess.run(["git", "-C", str(checkout), "checkout", "-q", "."], check=True)
    tree_here.cache_clear()


@pytest.mark.parametrize("hashed", [False, True], ids=["named commit", "hashes"])
@pytest.mark.parametrize(
    ("path", "line", "stale", "since"),
    [
        ("plugins_cpp/kernels/bev/bev_pool.cu", "int more;", BEV_POOL | EVERY_KERNEL, "kernels"),
        ("plugins_cpp/kernels/bev/bev_pool.cu", "  // more", set(), ""),
        ("converter/rewrite/rules/bits/bitwise.py", "MORE = 1", RULES, "rules"),
        ("converter/rewrite/rules/bits/bitwise.py", '\n"""A note\nof two lines."""', set(), ""),
        ("converter/verify/noise.py", "MORE = 1", JUDGE, "judge"),
        ("scripts/bench_selection.py", "MORE = 1", {"h200/selection.json"}, "script"),
        ("models/pointnet2.py", "MORE = 1", {"h200/networks_more.json"}, "networks"),
    ],
)  # fmt: skip
def test_records_of_what_changed_are_stale(
    changed: Path,
    path: str,
    line: str,
    stale: set[str],
    since: str,
    hashed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = sources.git(changed, "rev-parse", "HEAD").decode().strip()
    for row in ROWS:
        head = {"commit": "0" * 40, "rests_on": hashes(row.rests_on, tree_here(changed), changed)}
        write(changed, row, head if hashed else {"commit": commit})
    assert {state_of(row, changed).state for row in ROWS} == {FRESH}
    tree_here.cache_clear()
    with (changed / path).open("a") as file:
        file.write(f"{line}\n")
    found = {row.file: state_of(row, changed) for row in ROWS}
    assert {file for file, state in found.items() if state.state == STALE} == stale
    for file in stale:
        assert f"since then the {since} changed" in found[file].age
        assert found[file].paths == (() if hashed else (path,))


@pytest.mark.parametrize(
    ("record", "state", "age"),
    [
        (None, MISSING, ""),
        ({}, STALE, "names no commit"),
        ({"machine": {"date": "2026-01-02"}, "commit": "unknown"}, STALE, "names no commit, 2026-01-02"),
        ({"commit": "0" * 40}, STALE, "measured at 0000000; which this checkout does not have"),
        (
            {"commit": "38b6856 with changes", "date": "2026-01-02T03:04:05Z"},
            STALE,
            "measured at 38b6856, 2026-01-02; with changes that no commit has",
        ),
        ({"commit": "HEAD", "left": 3}, STALE, "measured at HEAD; rows that were not measured: 3"),
        ({"commit": "HEAD"}, FRESH, "measured at HEAD"),
    ],
)  # fmt: skip
def test_a_record_names_its_code(checkout: Path, record: dict[str, Any] | None, state: str, age: str) -> None:
    commit = sources.git(checkout, "rev-parse", "HEAD").decode().strip()
    if record is None:
        (checkout / "benchmarks" / ROW.file).unlink(missing_ok=True)
    else:
        write(checkout, ROW, {**record, **({"commit": commit} if record.get("commit") == "HEAD" else {})})
    found = state_of(ROW, checkout)
    assert (found.state, found.age) == (state, age.replace("HEAD", commit[:7]))


def test_kernels_are_those_that_the_list_names_with_what_they_include() -> None:
    files = kernel_files(OPERATORS)
    assert {
        "plugins_cpp/ops/bev_pool.cpp",
        "plugins_cpp/kernels/bev/bev_pool.cu",
        "plugins_cpp/kernels/convert.cuh",
    } <= files
    assert "plugins_cpp/kernels/matrix_inverse.cu" not in files and files < kernel_files(())
    listed = {path for path in tree_here() if path.startswith(("plugins_cpp/kernels/", "plugins_cpp/ops/"))}
    assert listed - kernel_files(()) == {"plugins_cpp/ops/list.cmake"}
    with pytest.raises(KeyError, match="NoOperator"):
        kernel_files(("NoOperator",))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (b'def f():\n    """Says more."""\n    # why\n\n    return 1\n', True),
        (b"def f():  # why\n    return (\n        1\n    )\n", True),
        (b"def f():\n    return 2\n", False),
        (b'def f():\n    x = """text"""\n    return 1\n', False),
        (b'X = """\n# text\n"""\ndef f():\n    return 1\n', False),
        (b'def f():\n    return 1\n"""text""".strip()\n', False),
    ],
)
def test_prose_is_no_code(text: bytes, same: bool) -> None:
    assert (code_hash(".py", text) == code_hash(".py", b"def f():\n    return 1\n")) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'"""\n# one\n"""', b'"""\n# other\n"""', False),
        (b'"the input is empty"', b'"nothing came in"', True),
        (b'f"of {n} nodes, {m} fail"', b'f"{n} nodes are there, {m} of them fail"', True),
        (b'f"of {n} nodes, {m} fail"', b'f"of {n} nodes, {k} fail"', False),
        (b'"Add Mul Sub"', b'"Add Mul"', False),
        (b'"float16 int8"', b'"float16 float32"', False),
        (b"1e-3", b"2e-3", False),
    ],
)
def test_messages_are_no_code_and_lists_of_operators_and_types_are(
    one: bytes, other: bytes, same: bool
) -> None:
    assert (code_hash(".py", b"X = " + one) == code_hash(".py", b"X = " + other)) is same


def test_every_record_is_in_the_table_and_on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {state.state for state in states()} <= {FRESH, STALE}
    of_readme = [record_rows.README in row.pages for row in ROWS]
    assert of_readme == sorted(of_readme, reverse=True), "what README.md shows is worth most"
    read: set[Path] = set()
    read_text = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda path, *a, **k: (read.add(path), read_text(path, *a, **k))[1]
    )
    texts, shown = {}, {}
    for page in {page for row in ROWS for page in row.pages}:
        before, _, rest = (
            (ROOT / page).read_text(encoding="utf-8").partition("<!-- generated: age of records -->")
        )
        texts[page] = before + rest.partition("<!-- end of age of records -->")[2]
        read.clear()
        for name, part in generate_docs.DOCUMENTS.get(page, {}).items():
            if name != "age of records":
                part()
        shown[page] = set(read)
    for row in ROWS:
        for page in row.pages:
            assert row.path in shown[page] or row.path.name in texts[page], (row.file, page)


def test_a_file_without_a_row_is_shown_by_no_page(tmp_path: Path) -> None:
    write(tmp_path, RecordRow("h200/other.json", 1, (), ()), {})
    (last,) = [state for state in states(root=tmp_path) if state.state != MISSING]
    assert (last.file, last.state, last.age) == ("h200/other.json", UNSHOWN, "")


def row(job: str, **more: Any) -> dict[str, Any]:
    return {"job": job, **more}


def record_at(path: Path, code: str, **more: Any) -> Record:
    head = {"rests_on": {"kernels": code}, "commit": code, "date": code, "command": "c", "machine": {}}
    return Record(path, head, ["a", "b", "c"], **more)


def test_a_record_of_two_codes_names_the_older(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    old = record_at(path, "old")
    old.add("a", row("a"))
    old.add("b", row("b"))
    new = record_at(path, "new")
    new.resume(lambda found: str(found["job"]))
    for job, named in (("c", "old"), ("a", "old"), ("b", "new")):
        new.add(job, row(job))
        written = json.loads(path.read_text())
        assert (written["commit"], written["rests_on"]["kernels"]) == (named, named)
        assert len(written["rows"]) == 3


def test_a_counted_record_says_how_many_jobs_are_left(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    record = record_at(path, "code", counted=True)
    for added, left in (
        (row("a", died="not done: no time was left"), 3),
        (row("a"), 2),
        (row("b", died="crashes: SIGSEGV"), 2),
        (row("b"), 1),
        (row("c"), None),
    ):
        record.add(added["job"], added)
        assert json.loads(path.read_text()).get("left") == left


def test_records_of_the_same_day_are_no_change_of_the_code(tmp_path: Path) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x")
    record, code = tmp_path / "benchmarks" / "one.json", tmp_path / "code.py"
    record.parent.mkdir()
    for path in (record, code):
        path.write_text("1")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    record.write_text("2")
    assert re.fullmatch("[0-9a-f]{40}", commit_of(tmp_path))
    code.write_text("2")
    assert commit_of(tmp_path).endswith(" with changes")


def test_a_script_writes_hashes_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_table = alone_in_the_table(tmp_path, monkeypatch)
    assert write_record(of_the_table, {"rows": []}, "--json")["rests_on"] == hashes(ROW.rests_on, tree_here())
    written = json.loads(of_the_table.read_text())
    assert {"commit", "command", "machine", "rests_on", "rows"} == written.keys()
    assert "rests_on" not in write_record(of_the_table.with_name("elsewhere.json"), {}, "--json")
    assert write_record(None, {"rows": []}, "--json") == {"rows": []}


@pytest.mark.parametrize(("flags", "left"), [([], ["a", "b"]), (["--resume"], ["b"])])
def test_rows_of_the_same_code_are_resumed(
    flags: list[str], left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_the_table = alone_in_the_table(tmp_path, monkeypatch)
    parser = gpu_parser("")
    run_record.add_resume(parser)

    def opened(flags: list[str]) -> Record:
        arguments = parser.parse_args(["--output", str(of_the_table), *flags])
        return gpu_record(arguments, "one.json", ["a", "b"], job_of=lambda found: str(found["job"]))

    opened([]).add("a", row("a"))
    assert opened(flags).left == left
    monkeypatch.setattr(run_record, "tree_here", dict)
    assert opened(flags).left == ["a", "b"], "the code is another"
