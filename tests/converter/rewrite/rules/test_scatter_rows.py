"""Scatters of whole rows as in exported graph networks, and similar scatters that are not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from trtsmith.converter.base.options.shapes import parse_shapes
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.profile.profile_ranges import ranges_of
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.rules.scatter.scatter_rows_plugin import NAME, PLUGIN
from trtsmith.converter.rewrite.target import RTX

FEATURES = 5


class Layers(torch.nn.Module):
    """Aggregations as PyTorch Geometric, torch_scatter and PyTorch write them, of any number of nodes and edges."""

    def forward(self, nodes: Any, edges: Any, messages: Any) -> Any:
        source, target = edges[0], edges[1]
        wide = target.unsqueeze(-1).expand_as(messages)
        added = nodes.scatter_add(0, wide, messages)
        column = source.view(-1, 1).expand(-1, FEATURES)
        largest = torch.zeros_like(nodes).scatter_reduce(-2, column, messages, "amax", include_self=True)
        smallest = nodes.scatter_reduce(0, column, messages, "amin", include_self=True)
        indexed = nodes.index_add(0, source, messages)
        put = indexed.index_put((target,), messages, accumulate=True)
        degree = torch.zeros(nodes.shape[0]).scatter_add(0, target, torch.ones(target.shape[0]))
        across = nodes.T.scatter_add(1, target.expand(FEATURES, -1), messages.T)
        return added, largest, smallest, put, degree, across


def inputs(nodes: int, edges: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(nodes + edges)
    return {
        "nodes": rng.normal(size=(nodes, FEATURES)).astype(np.float32),
        "edges": rng.integers(0, nodes, (2, edges)),
        "messages": rng.normal(size=(edges, FEATURES)).astype(np.float32),
    }


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("scatter") / "network.onnx"
    example = {name: torch.from_numpy(array) for name, array in inputs(6, 11).items()}
    count, edges = torch.export.Dim("n"), torch.export.Dim("e")
    torch.onnx.export(
        Layers().eval(),
        tuple(example.values()),
        str(path),
        dynamo=True,
        dynamic_shapes=({0: count}, {1: edges}, {0: edges}),
        opset_version=18,
        external_data=False,
        verbose=False,
    )
    return Model(onnx.load(path), path, {})


def kinds(result: Rewritten) -> Counter[str]:
    return Counter(node.op_type for node in result.model.proto.graph.node)


@pytest.mark.parametrize(
    "shapes", [None, ["nodes=2x5:6x5:40x5", "edges=2x3:2x11:2x300", "messages=3x5:11x5:300x5"]]
)
def test_what_pytorch_exports_becomes_the_plugin(network: Model, shapes: list[str] | None) -> None:
    """A profile knows that there may be more edges than nodes; that is no matter for a plugin."""
    result = rewrite(network, RTX, profile=shapes and ranges_of([parse_shapes(shapes)]))
    assert kinds(result)[PLUGIN.name] == 7
    assert not {"ScatterElements", "ScatterND"} & set(kinds(result))
    assert plan(result).convertible
    for nodes, edges in ((6, 11), (40, 3), (2, 300)):
        given = inputs(nodes, edges)
        expected, found = run(network, given), run(expand(result.model), given)
        assert list(found) == list(expected) and len(found) == 6
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


def one_scatter(statements: str, signature: str, constants: str = "") -> Model:
    """signature: the inputs, data first, whose type the output has."""
    output = signature.partition(" ")[0]
    text = f"g ({signature}) => ({output} y) {constants} {{ {statements} }}"
    text = f'<ir_version: 9, opset_import: ["" : 18]> {text}'
    return Model(onnx.parser.parse_model(text), Path("model.onnx"), {})


ELEMENTS = 'y = ScatterElements <axis = 0, reduction = "{}"> (x, {}, u)'
COLUMN = "s = Shape (u)  w = Expand (i, s)  " + ELEMENTS.format("{}", "w")

OTHERS = {
    "each element has its index": one_scatter(
        ELEMENTS.format("add", "i"), "float[4,3] x, int64[6,3] i, float[6,3] u"
    ),
    "a part of each row": one_scatter(COLUMN.format("add"), "float[4,3] x, int64[6,1] i, float[6,2] u"),
    "one index for each column": one_scatter(
        COLUMN.format("add"), "float[4,3] x, int64[1,3] i, float[6,3] u"
    ),
    "products": one_scatter(COLUMN.format("mul"), "float[4,3] x, int64[6,1] i, float[6,3] u"),
    "integers": one_scatter(COLUMN.format("add"), "int64[4,3] x, int64[6,1] i, int64[6,3] u"),
    "float64": one_scatter(COLUMN.format("add"), "double[4,3] x, int64[6,1] i, double[6,3] u"),
    "constants that differ": one_scatter(
        ELEMENTS.format("add", "i"), "float[4,3] x, float[2,3] u", "<int64[2,3] i = {3, 3, 3, 0, 0, 0}>"
    ),
    "constants of unlike columns": one_scatter(
        ELEMENTS.format("add", "i"), "float[4,2] x, float[2,2] u", "<int64[2,2] i = {3, 0, 3, 0}>"
    ),
    "tiled along the rows": one_scatter(
        "w = Tile (i, r)  " + ELEMENTS.format("add", "w"),
        "float[4,3] x, int64[3,1] i, float[6,3] u",
        "<int64[2] r = {2, 3}>",
    ),
    "tuples of two": one_scatter(
        'y = ScatterND <reduction = "add"> (x, i, u)', "float[4,3] x, int64[6,2] i, float[6] u"
    ),
    "overwritten": one_scatter("y = ScatterND (x, i, u)", "float[4,3] x, int64[2,1] i, float[2,3] u"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_of_whole_rows_stays_with_the_other_rules(name: str) -> None:
    result = rewrite(OTHERS[name], RTX)
    assert NAME not in {rule for record in result.rewrites for rule in record.pass_name.split(", ")}
    assert PLUGIN.name not in kinds(result)
    assert not result.declined


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
def test_the_plugin_takes_all_its_types(dtype: str) -> None:
    model = one_scatter(COLUMN.format("max"), f"{dtype}[4,3] x, int64[6,1] i, {dtype}[6,3] u")
    result = rewrite(model, RTX)
    assert kinds(result)[PLUGIN.name] == 1 and plan(result).convertible
    (record,) = result.rewrites
    assert any("NaN" in note for note in record.notes)
