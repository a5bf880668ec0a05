"""Loads, plans and builds models of ONNX text, and compares them with the original's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.builds import FLAVOUR, build_in_pool
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.engine.builder.build_request import BuildRequest, Profile
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.importers.problem import Problem


def loaded(source: str | onnx.ModelProto, folder: Path) -> Model:
    """Loaded from a file of the folder."""
    proto = onnx.parser.parse_model(source) if isinstance(source, str) else source
    onnx.save(proto, folder / "model.onnx")
    return load_model(folder / "model.onnx")


def problems_of(source: str | onnx.ModelProto, folder: Path) -> tuple[Problem, ...]:
    return plan(rewrite(loaded(source, folder))).problems


def op_types(model: Model) -> list[str]:
    return [node.op_type for node in model.proto.graph.node]


def dynamic_inputs(model: Model) -> set[str]:
    dims = {value.name: value.type.tensor_type.shape.dim for value in model.proto.graph.input}
    return {name for name, sizes in dims.items() if not all(d.HasField("dim_value") for d in sizes)}


def fixed(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Profile]:
    """The profile of one shape for each input."""
    return {name: Profile(shape, shape, shape) for name, shape in shapes.items()}


def engine_size(result: Rewritten, folder: Path, profile: Mapping[str, Profile] | None = None) -> int:
    """Of the engine that TensorRT-RTX builds; the test is skipped where it is not installed."""
    pytest.importorskip("tensorrt_rtx")
    save_model(result.model, folder / "rewritten.onnx")
    plugins = plan(result).plugins
    request = BuildRequest(
        folder / "rewritten.onnx",
        folder / "engine",
        (plugin_library(),) if plugins else (),
        plugins,
        (dict(profile),) if profile else (),
        targets=("sm86",),
        flavour=FLAVOUR,
    )
    return build_in_pool(request).size


def assert_close(
    found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], **bounds: float
) -> None:
    """Each output has the shape and, within the bounds of numpy's assert_allclose, the numbers that it should."""
    for name, array in expected.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, **bounds)
