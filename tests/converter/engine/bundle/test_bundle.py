"""Engine, libraries and manifest: written together or not at all."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.converter.engine.bundle.test_run_from_bundle import digest
from tests.processes import checkout_environment
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import is_mount_point
from trtsmith.converter.base.process.folder_lock import folder_lock
from trtsmith.converter.engine.bundle import bundle
from trtsmith.converter.engine.bundle.bundle import check_output, file_digest, manifest_path, write_bundle


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


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
@pytest.mark.parametrize("stopped", [OSError(16, "Device or resource busy"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("count", range(3))
@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
def test_an_engine_and_its_manifest_belong_together_after_a_failure(
    count: int, there: bool, stopped: BaseException, links: bool,
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    out.mkdir()
    if there:
        older = (tmp_path / "work" / "older" / "libp.so", tmp_path / "work" / "older-engine")
        older[0].parent.mkdir()
        for path in older:
            path.write_bytes(b"older")
        write_bundle(older[1], out / "m.plan", (older[0],), {"a": 0})
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    replace, calls = os.replace, list[object]()

    def stop(source: str, target: Path) -> None:
        calls.append(target)
        if len(calls) == count + 1:
            raise stopped
        replace(source, target)

    monkeypatch.setattr(os, "replace", stop)
    if not links:
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(1, "Operation not permitted")))
    with pytest.raises((UsageError, KeyboardInterrupt)):
        write_bundle(built[0], out / "m.plan", (built[1],), {"a": 1})
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_an_engine_and_its_manifest_belong_together_if_two_write_them(tmp_path: Path) -> None:
    engine = tmp_path / "out" / "m.plan"
    engine.parent.mkdir()

    def write(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "engine").write_bytes(b"engine %d" % number)
        (folder / "libp.so").write_bytes(b"library %d" % number)
        for _ in range(40):
            assert write_bundle(folder / "engine", engine, (folder / "libp.so",), {}).warnings == ()
            if not number:
                with folder_lock(engine.parent, str):
                    files = json.loads(manifest_path(engine).read_text())["files"]
                    assert {name: file_digest(engine.parent / name) for name in files} == files

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(write, number) for number in range(3)]:
            done.result()
    assert len(os.listdir(engine.parent)) == 3


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
        (folder, "is a folder(?s:.*)-o .*/d/m.plan"),
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


def test_a_mount_point_is_refused_before_the_build(tmp_path: Path) -> None:
    for name in ("m.plan", "x.plan", "x.manifest.json", "libp.so", "source"):
        (tmp_path / name).write_bytes(b"")
    assert not is_mount_point(tmp_path / "m.plan") and not is_mount_point(tmp_path / "none")
    script = """
import sys
from pathlib import Path
from trtsmith.converter.engine.bundle.bundle import check_output
from trtsmith.converter.base.errors import UsageError
try:
    check_output(Path(sys.argv[1]), None, [Path("/nowhere/libp.so")])
except UsageError as error:
    print(error)
"""
    for engine, mounted in (("m.plan", "m.plan"), ("x.plan", "x.manifest.json"), ("n.plan", "libp.so")):
        words = shlex.join([sys.executable, "-c", script, engine])
        mounting = ["unshare", "-rm", "sh", "-c", f"mount --bind source {mounted} && {words}"]
        done = subprocess.run(
            mounting, cwd=tmp_path, env=checkout_environment(), capture_output=True, text=True
        )
        if "mount" in done.stderr or "unshare" in done.stderr:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        assert f"{mounted} is a mount point" in done.stdout, done.stderr
