"""Integer products by float32: exact to the last unit, whatever the length, the signs and the zero points."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from tests.converter.rewrite.engine.ruled import ruled
from tests.converter.rewrite.running import loaded
from tests.importers.running import standard_model
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rules import quantized


def extreme(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """Odd numbers at one end of the range, the other end here and there: sums are as large as they can be, and odd."""
    info = np.iinfo(dtype)
    end = info.max if info.min == 0 else info.min + 1
    array = np.full(shape, end, dtype)
    array[rng.random(shape) < 0.02] = info.max if end != info.max else 1
    return array


def model(
    op_type: str, arrays: dict[str, np.ndarray], fed: tuple[str, ...], folder: Path, **attributes: object
) -> Model:
    constants = arrays.keys() - set(fed)
    proto = standard_model(op_type, arrays, {"y": TensorProto.INT32}, 13, constants, **attributes)
    return infer_shapes(loaded(proto, folder))


@pytest.mark.parametrize("fed", [("a",), ("a", "b", "za", "zb")], ids=["weights", "fed"])
@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("length", [1, 258, 259, 1023, 4112, 4113, 20000])
def test_matrices(length: int, types: tuple[type, type], fed: tuple[str, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(length)
    a, b = extreme(rng, types[0], (3, length)), extreme(rng, types[1], (length, 2))
    za, zb = np.array(np.iinfo(types[0]).min, types[0]), np.array([0, np.iinfo(types[1]).max], types[1])
    arrays = {"a": a, "b": b, "za": za, "zb": zb}
    want = (a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)
    done = ruled(model("MatMulInteger", arrays, fed, tmp_path), quantized.RULES)
    assert done.rewrites and not done.declined
    got = run(done.model, {name: arrays[name] for name in fed})["y"]
    np.testing.assert_array_equal(got, want)
    parts = sum(node.op_type == "MatMul" for node in done.model.proto.graph.node)
    assert parts <= max(8, 2 * -(-length // 4112))


@pytest.mark.parametrize("fed", [("x",), ("x", "w")], ids=["weights", "fed"])
@pytest.mark.parametrize(("channels", "group", "kernel"), [(3, 1, 3), (64, 1, 5), (300, 1, 3), (4, 2, 20)])
def test_convolutions(channels: int, group: int, kernel: int, fed: tuple[str, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(kernel)
    x = extreme(rng, np.uint8, (1, channels, kernel + 2, kernel + 1))
    w = extreme(rng, np.uint8, (2, channels // group, kernel, kernel))
    arrays = {"x": x, "w": w, "zx": np.array(1, np.uint8)}
    done = ruled(model("ConvInteger", arrays, fed, tmp_path, group=group), quantized.RULES)
    assert done.rewrites and not done.declined
    got = run(done.model, {name: arrays[name] for name in fed})["y"]
    share, wide = channels // group, x.astype(np.int64) - 1
    for out in range(2):
        mine = wide[0, out * share * (group - 1) : out * share * (group - 1) + share]
        for i, j in np.ndindex(3, 2):
            want = (mine[:, i : i + kernel, j : j + kernel] * w[out]).sum()
            assert got[0, out, i, j] == want
