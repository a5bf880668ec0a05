"""A plugin node as saved by `trtsmith locate`: the inverse of two matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.models import save, value

X = np.random.default_rng(1).standard_normal((2, 3, 3)).astype(np.float32) + 2 * np.eye(3, dtype=np.float32)
Y = np.linalg.inv(X.astype(np.float64)).astype(np.float32)
PLUGIN = {"domain": "trtsmith", "plugin_version": "1", "plugin_namespace": "trtsmith", "name": "inv"}


def folder(path: Path, *, dtype: int = TensorProto.FLOAT, expected: np.ndarray = Y) -> Path:
    path.mkdir(exist_ok=True)
    nodes = [oh.make_node("MatrixInverse", ["x"], ["y"], **PLUGIN)]
    if dtype != TensorProto.FLOAT:
        nodes = [
            oh.make_node("Cast", ["x"], ["x/odd"], to=dtype),
            oh.make_node("MatrixInverse", ["x/odd"], ["y/odd"], **PLUGIN),
            oh.make_node("Cast", ["y/odd"], ["y"], to=TensorProto.FLOAT),
        ]
    save(path / "node.onnx", nodes, [value("x", X.shape)], [value("y", X.shape)])
    np.savez(path / "inputs.npz", x=X)
    np.savez(path / "expected.npz", y=expected)
    return path
