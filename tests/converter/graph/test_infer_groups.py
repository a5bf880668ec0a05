"""New nodes are inferred in groups: what comes of it is what one model of all of them gives."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from trtsmith.converter.graph import infer_new
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.model import Model

BODY = """<ir_version: 10, opset_import: ["" : 17]> g (float[batch, 4] x) => (float[m, n] y) <int64[1] last = {-1}> {
    a = Relu (x)  shape = Shape (a)  wanted = Concat <axis = 0> (shape, last)  b = Reshape (a, wanted)
    c = ReduceSum <keepdims = 0> (b)  kept = NonZero (b)  d = Cast <to = 1> (kept)  y = Add (d, c)
}"""


@pytest.mark.parametrize("size", [1, 2, 3])
def test_types_do_not_depend_on_the_size_of_groups(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def types() -> dict[str, bytes]:
        graph = Graph(Model(onnx.parser.parse_model(BODY), Path("m.onnx"), {}))
        graph.stale.update(dict.fromkeys(graph.root.nodes))
        graph.infer()
        return {name: value.type.SerializeToString() for name, value in graph.root.types.items()}

    whole = types()
    assert {"wanted", "b", "kept", "y"} <= whole.keys()
    monkeypatch.setattr(infer_new, "_GROUP", size)
    assert types() == whole
