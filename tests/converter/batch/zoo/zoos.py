"""Makes folders with small models, and reads zoo files in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx import helper as oh

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.zoo.read_zoo import read_zoo
from trtsmith.importers.problem import Problem
from trtsmith.zoo_commands import zoo_commands

COMMANDS = zoo_commands()


def write_model(path: Path, *shape: int | str | None, weights: str = "") -> Path:
    """y = x + b. weights: the file for b, beside the model; "" for the model itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    b = numpy_helper.from_array(np.ones(1, np.float32), "b")
    if weights:
        (path.parent / weights).write_bytes(b.raw_data)
        b.ClearField("raw_data")
        b.data_location = TensorProto.EXTERNAL
        b.external_data.add(key="location", value=weights)
        b.external_data.add(key="length", value="4")
    inputs = [oh.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [oh.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    graph = oh.make_graph([oh.make_node("Add", ["x", "b"], ["y"])], "g", inputs, outputs, [b])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def make_folder(folder: Path) -> Path:
    """a.onnx [1, 3]; b.onnx [batch, 3]; nets/c.onnx and nets/deep/d.onnx [2]; x.npz."""
    write_model(folder / "a.onnx", 1, 3)
    write_model(folder / "b.onnx", "batch", 3)
    write_model(folder / "nets" / "c.onnx", 2)
    write_model(folder / "nets" / "deep" / "d.onnx", 2)
    np.savez(folder / "x.npz", x=np.ones((1, 3), np.float32))
    return folder


def tasks_of(folder: Path, text: str) -> tuple[BatchTask, ...]:
    """The tasks of a zoo with that text."""
    zoo = folder / "zoo.toml"
    zoo.write_text(text, encoding="utf-8")
    return read_zoo(zoo, COMMANDS)


def problems_of(folder: Path, text: str) -> tuple[Problem, ...]:
    """What is wrong with it."""
    with pytest.raises(UsageError) as caught:
        tasks_of(folder, text)
    problems = caught.value.problems
    assert all(part for problem in problems for part in problem.to_json().values())
    return problems


def lines_of(problems: tuple[Problem, ...]) -> list[int]:
    """The lines that the problems name, in their order."""
    return [
        int(problem.where.partition(", line ")[2].partition(":")[0].partition(",")[0]) for problem in problems
    ]
