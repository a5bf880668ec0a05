"""The zoo file written for a folder of models can be read again."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.batch.zoo.zoos import COMMANDS, make_folder, write_model
from tests.converter.models import written as model
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.zoo import write_zoo as module
from trtsmith.converter.batch.zoo.read_zoo import read_zoo
from trtsmith.converter.batch.zoo.write_zoo import ZooWritten, write_zoo


def written(folder: Path, output: Path | None = None) -> tuple[ZooWritten, str, tuple[BatchTask, ...]]:
    """What was done, the text, and its tasks."""
    output = output or folder / "zoo.toml"
    done = write_zoo(folder, output)
    return done, output.read_text(encoding="utf-8"), read_zoo(output, COMMANDS)


def shapes_of(folder: Path, *shape: int | str | None) -> str:
    """The range that a model's only input gets; "" for none."""
    write_model(folder / "m.onnx", *shape)
    _, _, (task,) = written(folder)
    return task.words[1].removeprefix("x=") if task.words else ""


def test_a_folder_of_models(tmp_path: Path) -> None:
    done, text, tasks = written(make_folder(tmp_path))
    shapes = ("b.onnx: x=1x3:1x3:4x3",)
    assert done == ZooWritten(tmp_path / "zoo.toml", models=4, guessed=0, shapes=shapes)
    words = {"a": (), "b": ("--shapes", "x=1x3:1x3:4x3"), "c": (), "d": ()}
    assert {task.name: task.words for task in tasks} == words
    assert '[[model]]\npath = "b.onnx"\n# input x: float32[batch, 3]\nshapes.x = "1x3:1x3:4x3"\n' in text
    assert "TODO" not in text


def test_the_file_may_lie_elsewhere(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "models")
    (tmp_path / "zoos").mkdir()
    _, text, tasks = written(folder, tmp_path / "zoos" / "zoo.toml")
    assert 'path = "../models/a.onnx"' in text
    assert [task.source for task in tasks[:1]] == [str(folder / "a.onnx")]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3), ""),
        (("batch", 3), "1x3:1x3:4x3"),
        ((None, 3), "1x3:1x3:4x3"),
        (("N", 3, 8, 8), "1x3x8x8:1x3x8x8:4x3x8x8"),
        (("unk__12", 3), "1x3:1x3:4x3"),
        (("s0", 3), "1x3:1x3:4x3"),
        (("p2o.DynamicDimension.0", 3, "p2o.DynamicDimension.1", 32), "1x3x320x32:1x3x640x32:4x3x1280x32"),
        ((3, "batch_size"), "3x1:3x1:3x4"),
        (("num_points", 3), "1x3:128x3:512x3"),
        (("batch", "seq"), "1x1:1x128:4x512"),
        (("batch", 3, "height", "width"), "1x3x320x320:1x3x640x640:4x3x1280x1280"),
        (("batch", "height", "width", 3), "1x320x320x3:1x640x640x3:4x1280x1280x3"),
        ((None, None, None, 3), "1x320x320x3:1x640x640x3:4x1280x1280x3"),
        (("batch", 3, "frames", 160), "1x3x1x160:1x3x128x160:4x3x512x160"),
        (("h", "w"), "320x320:640x640:1280x1280"),
        (("k", "k"), "1x1:128x128:512x512"),
    ],
)
def test_open_dimensions(tmp_path: Path, shape: tuple[int | str | None, ...], expected: str) -> None:
    assert shapes_of(tmp_path, *shape) == expected


def test_guesses_are_marked_and_counted(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", "batch", 3, "height", None)
    done, text, _ = written(tmp_path)
    assert done.guessed == 1
    assert "# TODO: the model leaves these sizes open; they are guesses: height, axis 3 of x\n" in text


def with_position(folder: Path, height: int, width: int) -> None:
    """An image and what is added to it, whose size the model leaves open."""
    position = {"p": np.zeros((1, 3, height, width), np.float32)}
    graph = "(float[batch,3,height,width] x) => (float[] y) { y = Add (x, p) }"
    model(folder / "m.onnx", graph, position)


def test_sizes_that_the_graph_contradicts_are_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_position(tmp_path, 224, 224)
    _, text, (task,) = written(tmp_path)
    assert task.words == ("--shapes", "x=1x3x224x224:1x3x224x224:4x3x224x224")
    assert "TODO" in text
    monkeypatch.setattr(module, "MOST_S", 0.0)  # looking for sizes ends
    (tmp_path / "zoo.toml").unlink()
    _, text, (task,) = written(tmp_path)
    assert "1x3x320x320" in task.words[1] and "refuses them" in text


def test_a_batch_that_the_graph_fixes_is_one(tmp_path: Path) -> None:
    token = {"t": np.zeros((1, 1, 12), np.float32)}
    model(tmp_path / "m.onnx", "(float[batch,5,12] x) => (float[] y) { y = Concat <axis = 1> (t, x) }", token)
    _, _, (task,) = written(tmp_path)
    assert task.words == ("--shapes", "x=1x5x12")


def test_where_no_guess_fits_it_says_so(tmp_path: Path) -> None:
    with_position(tmp_path, 17, 19)
    done, text, tasks = written(tmp_path)
    assert done.guessed == len(tasks) == 1
    assert "they are guesses, and ONNX's shape inference refuses them: height, width" in text


def test_one_symbol_has_one_size(tmp_path: Path) -> None:
    graph = """(float[batch,h0] side, float[batch,3,h0,8] image) => (float[] y, float[] z) {
        y = Relu (side) z = Relu (image) }"""
    model(tmp_path / "m.onnx", graph)
    _, _, (task,) = written(tmp_path)
    assert task.words[1::2] == ("side=1x320:1x640:4x1280", "image=1x3x320x8:1x3x640x8:4x3x1280x8")


def test_what_cannot_be_loaded_is_an_entry_with_the_reason(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "broken.onnx").write_bytes(b"\x08\x09:\xff\x01x")
    (folder / "p.pt2").write_bytes(b"no archive")
    write_model(folder / "w.onnx", 1, weights="gone.data")
    (folder / "gone.data").unlink()
    done, text, tasks = written(folder)
    assert (done.models, done.unread, done.skipped) == (7, 3, ())
    assert {task.name for task in tasks} == {"a", "b", "c", "d", "broken", "p", "w"}
    assert 'path = "broken.onnx"\n# it cannot be read: The model is truncated' in text
    assert 'path = "p.pt2"\n# it cannot be read: it is no file that torch.export.save wrote' in text
    assert "'gone.data' does not exist" in text.partition('path = "w.onnx"')[2]


def test_a_program_of_pytorch_is_an_entry(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p.pt2", "w") as archive:
        archive.writestr("p/archive_format", "pt2")
    _, text, (task,) = written(tmp_path)
    assert (task.name, task.source) == ("p", str(tmp_path / "p.pt2"))
    assert "# a PyTorch program" in text


HOSTILE = [
    '"quoted" \\ back.onnx',
    "new\nline.onnx",
    "<script>alert(1)</script >.onnx".replace("/", "_"),
    "~root.onnx",
    "!not.onnx",
    "a*b[c]?.onnx",
    "m:f.onnx",
    "\x1b[31m\x7f.onnx",
    "d\u00e9j\u00e0 \u202evu.onnx",
    "'''.onnx",
    "#.onnx",
]


def test_hostile_names_of_files_and_inputs(tmp_path: Path) -> None:
    for name in HOSTILE:
        path = write_model(tmp_path / name, "batch", 3)
        proto = onnx.load(path)
        proto.graph.input[0].name = proto.graph.node[0].input[0] = name
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = f"batch\n{name}"
        onnx.save(proto, path)
    _, text, tasks = written(tmp_path)
    assert {task.source for task in tasks} == {str(tmp_path / name) for name in HOSTILE}
    assert {task.words[-1].removeprefix("--shapes=").rpartition("=")[0] for task in tasks} == set(HOSTILE)
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_name_that_is_not_utf8_is_a_comment(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    os.rename(folder / "a.onnx", os.fsencode(folder) + b"/\xff.onnx")
    done, text, tasks = written(folder)
    assert (done.models, len(done.skipped), len(tasks)) == (3, 1, 3)
    assert "not UTF-8" in text


def test_a_file_is_not_overwritten_without_being_told(tmp_path: Path) -> None:
    folder, output = make_folder(tmp_path), tmp_path / "zoo.toml"
    output.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        write_zoo(folder, output)
    assert output.read_text() == "mine"
    write_zoo(folder, output, overwrite=True)
    assert len(read_zoo(output, COMMANDS)) == 4


@pytest.mark.parametrize(
    ("folder", "said"), [("empty", "has no model"), ("gone", "no such folder"), ("x.npz", "not a folder")]
)
def test_folders_without_models(tmp_path: Path, folder: str, said: str) -> None:
    make_folder(tmp_path)
    (tmp_path / "empty" / ".hidden").mkdir(parents=True)
    write_model(tmp_path / "empty" / ".hidden" / "h.onnx", 1)
    with pytest.raises(UsageError, match=said):
        write_zoo(tmp_path / folder, tmp_path / "zoo.toml")
    assert not (tmp_path / "zoo.toml").exists()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the zoo's file cannot be written"):
        write_zoo(make_folder(tmp_path), tmp_path / "nowhere" / "zoo.toml")


def test_options_can_be_added_at_the_end(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", "batch", 3)
    written(tmp_path)
    with open(tmp_path / "zoo.toml", "a", encoding="utf-8") as stream:
        stream.write('precision = "fp16"\n')
    (task,) = read_zoo(tmp_path / "zoo.toml", COMMANDS)
    assert task.words[-2:] == ("--precision", "fp16")
