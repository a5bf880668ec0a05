"""Digests of sources: trtsmith's own, and those of operator packages, without importing them."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trtsmith.converter.base.process.package_folders import PACKAGE_FOLDERS
from trtsmith.converter.batch import file_hashes, machine
from trtsmith.converter.batch.machine import (
    MachineFacts,
    machine_problems,
    operators_digest,
    rules_digest,
    this_machine,
)


def test_every_source_and_table_of_ours_counts(tmp_path: Path) -> None:
    copy = tmp_path / "trtsmith"  # as an installation has it
    for folder, target in zip(PACKAGE_FOLDERS, (copy, copy / "converter", copy / "importers"), strict=True):
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    before = rules_digest(copy, copy)
    assert before == rules_digest()
    for name in (
        "__init__.py",
        "converter/rewrite/phases.py",
        "converter/rewrite/native_operators.json",
        "importers/registry.py",
    ):
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(data + b"\n")
        assert rules_digest(copy, copy) != before, name
        (copy / name).write_bytes(data)
    assert rules_digest(copy, copy) == before


def test_what_is_compiled_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1")
    before = rules_digest(tmp_path, tmp_path)
    for folder in ("__pycache__", "lib", "plugins_cpp"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.so").write_text("")
    (tmp_path / "a.pyc").write_text("")
    assert rules_digest(tmp_path, tmp_path) == before
    (tmp_path / "b.py").write_text("")
    assert rules_digest(tmp_path, tmp_path) != before


def write_package(folder: Path) -> Path:
    (folder / "acme_cached" / "lib").mkdir(parents=True)
    (folder / "acme_cached" / "__init__.py").write_text("raise SystemExit('nobody asked for this to run')")
    (folder / "acme_cached" / "ops.py").write_text("OPERATORS = ()")
    (folder / "acme_cached" / "lib" / "libacme_plugins.so").write_text("1")
    return folder / "acme_cached"


@pytest.mark.parametrize("how", ["folder", "file", "module", "inner module"])
def test_a_package_counts_with_all_its_files_and_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    package = write_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    spec = {"folder": str(package), "file": str(package / "ops.py"), "module": "acme_cached"}.get(
        how, "acme_cached.ops"
    )
    before = operators_digest([spec])
    assert before and "acme_cached" not in sys.modules
    for name in ("ops.py", "__init__.py", "lib/libacme_plugins.so"):
        old = (package / name).read_text()
        (package / name).write_text("other")
        assert operators_digest([spec]) not in (before, None), name
        (package / name).write_text(old)
    assert operators_digest([spec]) == before
    assert operators_digest([spec, spec]) != before


def test_a_file_by_itself_counts_with_the_libraries_beside_it(tmp_path: Path) -> None:
    file, library = tmp_path / "mine.py", tmp_path / "lib" / "libmine_plugins.so"
    file.write_text("OPERATORS = ()")
    (tmp_path / "unrelated.txt").write_text("1")
    before = operators_digest([str(file)])
    (tmp_path / "unrelated.txt").write_text("2")
    assert operators_digest([str(file)]) == before
    library.parent.mkdir()
    library.write_text("1")
    assert operators_digest([str(file)]) != before


def test_none_and_not_found_are_told_apart() -> None:
    assert operators_digest([]) == ""
    assert operators_digest(["no_such_module_at_all"]) is None
    assert operators_digest(["sys"]) is None  # built in: there is no file


def test_installed_packages_are_found_by_their_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = this_machine().packages
    package = write_package(tmp_path)
    info = tmp_path / "acme_cached-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_cached\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{machine.GROUP}]\nacme = acme_cached.ops:OPERATORS\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = this_machine().packages
    assert found not in (before, None, "")
    (package / "ops.py").write_text("other")
    assert this_machine().packages not in (before, None, "", found)


def test_links_to_nothing_and_in_circles_and_pipes_end_nothing(tmp_path: Path) -> None:
    package = write_package(tmp_path)
    before = operators_digest([str(package)])
    (package / ".#ops.py").symlink_to("nobody@nowhere.123")
    (package / "circle").symlink_to(package)
    os.mkfifo(package / "pipe")
    assert operators_digest([str(package)]) == before


def test_a_package_that_may_not_be_read_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = write_package(tmp_path)

    def refuses(_: Path) -> int:
        raise PermissionError

    monkeypatch.setattr(file_hashes, "open_regular", refuses)
    assert operators_digest([str(package)]) is None


HERE = MachineFacts({"trtsmith": "1", "onnx": "1.23"}, {"tensorrt_rtx": "1.7"}, "rules", "plugins")


def test_machines_that_are_alike_have_no_problems() -> None:
    there = {"a": HERE, "b": replace(HERE, flavours={"tensorrt_rtx": "1.7", "tensorrt": "10.9"})}
    assert machine_problems(HERE, there) == []  # TensorRT is of use where there is a GPU


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"rules": "others"},
            "trtsmith differs from the one on this machine: sources others there, rules here",
        ),
        ({"plugins": ""}, "plugin library none there"),
        ({"operators": None}, "operators of TRTSMITH_OPS unreadable there, none here"),
        ({"versions": {"trtsmith": "1", "onnx": "1.22"}}, "several versions of onnx: 1.22 on b; 1.23 on"),
        ({"flavours": {}}, "several versions of tensorrt_rtx: none on b"),
    ],
)
def test_a_machine_that_differs_is_named(change: dict[str, object], said: str) -> None:
    there = {"a": HERE, "b": replace(HERE, **change), "c": HERE}
    (problem,) = machine_problems(HERE, there)
    assert said in problem.what and problem.where == "b"
