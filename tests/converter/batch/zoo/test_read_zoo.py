"""Tasks of a zoo's file: models, options, matrices, needs."""

from __future__ import annotations

import pickle
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from trtsmith.converter.batch.task import BatchTask, Needs
from trtsmith.converter.batch.zoo.read_zoo import read_zoo
from trtsmith.converter.cli.batch_options import zoo_commands

COMMANDS = zoo_commands()


def write_model(path: Path, *shape: int | str | None) -> Path:
    """x -> Relu -> y"""
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs = [oh.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [oh.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    graph = oh.make_graph([oh.make_node("Relu", ["x"], ["y"])], "g", inputs, outputs)
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(tmp_path / "a.onnx", 1, 3)
    write_model(tmp_path / "b.onnx", "batch", 3)
    write_model(tmp_path / "nets" / "c.onnx", 2)
    write_model(tmp_path / "nets" / "deep" / "d.onnx", 2)
    return tmp_path


def tasks_of(folder: Path, text: str) -> tuple[BatchTask, ...]:
    zoo = folder / "zoo.toml"
    zoo.write_text(text, encoding="utf-8")
    return read_zoo(zoo, COMMANDS)


def test_a_model_by_itself_is_a_task(folder: Path) -> None:
    (task,) = tasks_of(folder, '\n[[model]]\npath = "a.onnx"\n')
    assert task == BatchTask(
        "a", "a", str(folder / "a.onnx"), (), (folder / "a.onnx",), {}, None, Needs(), True, 2
    )
    assert pickle.loads(pickle.dumps(task)) == task
