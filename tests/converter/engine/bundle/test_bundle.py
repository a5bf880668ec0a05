"""Engine, libraries and manifest: written together or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.converter.engine.bundle.test_run_from_bundle import digest
from trtsmith.converter.engine.bundle import bundle
from trtsmith.converter.engine.bundle.bundle import check_output, manifest_path, write_bundle
from trtsmith.converter.model.errors import UsageError


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "work").mkdir()
    engine, library = tmp_path / "work" / "engine", tmp_path / "work" / "libp.so"
    engine.write_bytes(b"engine")
    library.write_bytes(b"library")
    return engine, library


def test_everything_lies_side_by_side(built: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    made = write_bundle(built[0], out / "m.plan", (built[1],), {"a": 1})
    assert (made.engine, made.libraries, made.manifest) == (
        out / "m.plan", (out / "libp.so",), out / "m.manifest.json",
    )  # fmt: skip
    assert sorted(os.listdir(out)) == ["libp.so", "m.manifest.json", "m.plan"]
    files = {"m.plan": digest(b"engine"), "libp.so": digest(b"library")}
    assert json.loads(made.manifest.read_text()) == {"a": 1, "files": files}
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o644}


def test_library_that_lies_there_already(built: tuple[Path, Path]) -> None:
    folder = built[0].parent
    write_bundle(built[0], folder / "m.plan", (built[1],), {})
    assert built[1].read_bytes() == b"library"


@pytest.mark.parametrize("failing", ["os.replace", "shutil.copyfileobj"])
def test_failure_leaves_what_was_there(
    failing: str, built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "m.plan").write_bytes(b"older")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"trtsmith.converter.engine.bundle.bundle.{failing}", fail)
    with pytest.raises(UsageError, match="cannot be written: No space left"):
        write_bundle(built[0], out / "m.plan", (built[1],), {})
    assert os.listdir(out) == ["m.plan"] and (out / "m.plan").read_bytes() == b"older"


def test_interruption_leaves_what_was_there(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()

    def interrupt(path: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "file_digest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bundle(built[0], out / "m.plan", (built[1],), {})
    assert os.listdir(out) == []


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    model, folder, library = tmp_path / "m.onnx", tmp_path / "d", tmp_path / "same.plan"
    model.write_bytes(b"model")
    folder.mkdir()
    (folder / "libp.so").mkdir()
    (tmp_path / "n.manifest.json").mkdir()
    for engine, words in (
        (folder, "is a folder"),
        (tmp_path / "none" / "m.plan", "folder does not exist"),
        (model / "m.plan", "is a file, not a folder"),
        (model, "is the model itself"),
        (tmp_path / ("a" * 300), "File name too long"),
        (Path("/proc/m.plan"), "cannot be written"),
        (Path("/dev/null"), "cannot be written"),
        (tmp_path / "same.plan", "two of the files to be written have the name 'same.plan'"),
        (folder / "m.engine", "is a folder"),
        (tmp_path / "n.plan", "is a folder"),
    ):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(UsageError, match=words) as error:
            check_output(engine, model, [library, tmp_path / "libp.so"])
        assert error.value.problems[0].where == f"-o {engine}"
        assert sorted(tmp_path.rglob("*")) == before


def test_outputs_that_can_be(tmp_path: Path) -> None:
    library, link = tmp_path / "libp.so", tmp_path / "link.so"
    library.write_bytes(b"")
    link.symlink_to(library)
    check_output(tmp_path / "m.plan", tmp_path / "none.onnx", [library, library])
    assert manifest_path(Path("a/m.v2.plan")) == Path("a/m.v2.manifest.json")
    assert manifest_path(Path("")) == Path(".manifest.json")  # no name, and no traceback either
