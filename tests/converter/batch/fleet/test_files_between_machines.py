"""Files are sent once, as long as somebody reads them, and lie on the other machine as they did."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.batch.workers import left_in, task
from trtsmith.converter.batch.fleet import shipped_files
from trtsmith.converter.batch.fleet.node_files import NodeFiles, task_in_view
from trtsmith.converter.batch.fleet.shipped_files import FileShelf


class FakeRay:
    """An object store: references are arrays."""

    def __init__(self) -> None:
        self.puts = 0

    def put(self, data: Any) -> Any:
        self.puts += 1
        return np.array(data)

    def get(self, reference: Any) -> Any:
        return reference


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shipped_files, "PART", 1000)
    folder = tmp_path / "driver/nets"
    folder.mkdir(parents=True)
    (folder / "net.onnx").write_bytes(b"graph")
    (folder / "net.data").write_bytes(os.urandom(2500))
    return folder / "net.onnx"


def test_each_content_is_put_once_and_dropped_after_its_last_reader(model: Path) -> None:
    ray = FakeRay()
    copy = model.with_name("copy.data")
    copy.write_bytes(model.with_name("net.data").read_bytes())
    one = replace(task("a"), files=(model, model.with_name("net.data")))
    two = replace(task("b"), files=(copy,))
    shelf = FileShelf(ray, [one, two])
    contents = shelf.contents(one)
    assert [file.bytes for file in contents] == [5, 2500] and shelf.parts(contents) == {}
    shelf.put(contents, [file.sha256 for file in contents])
    assert (
        ray.puts == 4
        and b"".join(p.tobytes() for p in shelf.parts(contents)[contents[1].sha256]) == copy.read_bytes()
    )
    same = shelf.contents(two)
    shelf.put(same, [file.sha256 for file in same])
    assert ray.puts == 4
    shelf.done(one)
    assert shelf.parts(contents).keys() == {same[0].sha256}
    shelf.done(two)
    assert shelf.parts(contents) == {}


def test_files_lie_in_a_view_as_they_did_and_never_outside(model: Path, tmp_path: Path) -> None:
    ray, data = FakeRay(), model.with_name("net.data")
    outside = Path(f"{model.parent}/../../driver/other")
    outside.write_text("other")
    one = replace(
        task("net", f"--inputs=x:{data}", "--ops", model.parent, "--target", "/", source=str(model)),
        files=(model, data, outside),
    )
    shelf = FileShelf(ray, [one])
    contents = shelf.contents(one)
    node = tmp_path / "node"
    node.mkdir()
    files = NodeFiles(node)
    assert files.are_here(contents)
    assert len(files.lacking(contents, {})) == 3
    shelf.put(contents, [file.sha256 for file in contents])
    assert files.lacking(contents, shelf.parts(contents)) == ()
    files.take(ray, contents, shelf.parts(contents))
    assert NodeFiles(node).lacking(contents, {}) == ()  # another process of that machine has them, too
    view = files.view(contents)
    there = task_in_view(one, view)
    assert there.source == f"{view}{model}" and Path(there.source).read_bytes() == b"graph"
    assert there.words[:3] == (f"--inputs=x:{view}{data}", "--ops", f"{view}{model.parent}")
    assert [path.read_bytes() for path in there.files] == [path.read_bytes() for path in one.files]
    assert all(view in path.parents and ".." not in path.parts for path in there.files)
    assert len(left_in(view)) == 3


def test_a_file_that_changes_while_it_is_sent_is_not_used(model: Path, tmp_path: Path) -> None:
    ray = FakeRay()
    one = replace(task("net"), files=(model,))
    shelf = FileShelf(ray, [one])
    contents = shelf.contents(one)
    model.write_bytes(b"other")
    files = NodeFiles(tmp_path)
    assert not files.are_here(contents)
    shelf.put(contents, [contents[0].sha256])
    with pytest.raises(OSError, match="changed while it was sent"):
        files.take(ray, contents, shelf.parts(contents))
    assert [name for name in left_in(tmp_path / "contents") if not name.endswith(".lock")] == []
