"""Large values generated from small constants: which become constants, and which stay."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.precision.networks import network
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.constants import generated
from trtsmith.converter.rewrite.rewrite import rewrite

FEEDS = {"x": np.random.default_rng(0).standard_normal((1, 80, 80)).astype(np.float32)}

# A mask of 80 x 80 pixels as DETR's: ones that are resized, compared, and chosen by.
MASK = """
    ones = Expand (one, shape)
    resized = Resize <mode = "nearest"> (ones, , , sizes)
    seen = Cast <to = 9> (resized)
    """


NUMBERS = {"zero": 0, "one": 1, "half": 0.5, "closed": -np.inf, "start": 0, "end": 80}
SIZES = {"shape": [1, 40, 40], "sizes": [1, 80, 80], "first": [0], "last": [1], "whole": [1, 80]}
CONSTANTS = {
    **{name: np.array(number, np.float32) for name, number in NUMBERS.items()},
    **{name: np.array(sizes, np.int64) for name, sizes in SIZES.items()},
    "w": np.random.default_rng(1).standard_normal((80, 80)).astype(np.float32),
}


def model_of(folder: Path, body: str, size: str = "80") -> Model:
    used = {name: array for name, array in CONSTANTS.items() if re.search(rf"\b{name}\b", body)}
    return network(folder, f"(float[1,{size},80] x) => (float[a,b,c] y) {{ {body} }}", used)


def rewritten(model: Model, feeds: dict[str, np.ndarray] = FEEDS) -> tuple[list[str], list[str]]:
    """The operators that are left, and what the records say; the numbers stay."""
    done = rewrite(model)
    np.testing.assert_array_equal(run(model, feeds)["y"], run(done.model, feeds)["y"])
    left = [node.op_type for node in done.model.proto.graph.node if node.op_type != "Constant"]
    return left, [record.what for record in done.rewrites if record.pass_name == generated.NAME]


DROPPED = {
    "added": "mask = Where (seen, zero, closed)\n y = Add (x, mask)",
    "added first": "mask = Where (seen, zero, closed)\n y = Add (mask, x)",
    "taken away": "mask = Where (seen, zero, closed)\n y = Sub (x, mask)",
    "factor": "mask = Where (seen, one, zero)\n y = Mul (mask, x)",
    "divisor": "mask = Where (seen, one, zero)\n y = Div (x, mask)",
    "of two, in a row": "mask = Where (seen, zero, closed)\n ones_too = Where (seen, one, zero)\n a = Relu (x)\n"
    " b = Add (a, mask)\n y = Mul (b, ones_too)",
    "twice": "mask = Where (seen, zero, closed)\n a = Relu (x)\n b = Add (a, mask)\n y = Sub (b, mask)",
    "of a condition": "positive = Greater (x, zero)\n both = And (seen, positive)\n y = Where (both, x, zero)",
}


@pytest.mark.parametrize("form", DROPPED)
def test_a_mask_that_masks_nothing_is_dropped(tmp_path: Path, form: str) -> None:
    behind = (
        DROPPED[form] if form == "of a condition" else f"{DROPPED[form].replace('y =', 'z =')}\n y = Abs (z)"
    )
    left, what = rewritten(model_of(tmp_path, MASK + behind))
    kept = {
        "of a condition": ["Greater", "Where"],
        "of two, in a row": ["Relu", "Abs"],
        "twice": ["Relu", "Abs"],
    }
    assert left == kept.get(form, ["Abs"])
    assert set(what) == {"a constant: it changes nothing where it is read"}


KEPT = {
    "positions": "row = Range (start, end, one)\n column = Unsqueeze (row, last)\n grid = Add (row, column)\n"
    " g = Unsqueeze (grid, first)\n z = Mul (x, g)\n y = Abs (z)",
    "no neutral place": "mask = Where (seen, zero, closed)\n z = Sub (mask, x)\n y = Abs (z)",
    "another number": "mask = Where (seen, half, closed)\n z = Add (x, mask)\n y = Abs (z)",
    "an output": "mask = Where (seen, zero, closed)\n y = Add (x, mask)",
}


@pytest.mark.parametrize("form", KEPT)
def test_other_values_become_constants(tmp_path: Path, form: str) -> None:
    left, what = rewritten(model_of(tmp_path, ("" if form == "positions" else MASK) + KEPT[form]))
    assert len(left) == (1 if form == "an output" else 2)
    assert what == ["a constant: computed"]


def test_a_mask_that_widens_its_other_input_stays(tmp_path: Path) -> None:
    body = f"{MASK} mask = Where (seen, zero, closed)\n row = ReduceMax <keepdims = 1> (x, last)\n y = Add (row, mask)"
    left, what = rewritten(model_of(tmp_path, body))
    assert left == ["ReduceMax", "Add"]
    assert what == ["a constant: computed"]


def test_rows_that_repeat_are_kept_once(tmp_path: Path) -> None:
    body = "rows = Expand (last, whole)\n types = Gather (w, rows)\n z = Add (types, x)\n y = Abs (z)"
    model = model_of(tmp_path, body)
    assert rewritten(model) == (["Add", "Abs"], ["a constant: computed"])
    (types,) = (tensor for tensor in rewrite(model).model.proto.graph.initializer if tensor.name == "types")
    assert list(types.dims) == [1, 1, 80]


def test_of_a_size_that_varies_nothing_is_generated(tmp_path: Path) -> None:
    body = "s = Shape (x)\n m = ConstantOfShape (s)\n z = Add (x, m)\n y = Abs (z)"
    left, what = rewritten(model_of(tmp_path, body, "n"))
    assert left == ["Shape", "ConstantOfShape", "Add", "Abs"]
    assert not what


WEIGHTS = "turned = Transpose (w)\n table = Unsqueeze (turned, first)\n"


def test_a_product_of_weights_becomes_a_constant(tmp_path: Path) -> None:
    model = model_of(tmp_path, WEIGHTS + "p = MatMul (table, w)\n z = Add (x, p)\n y = Abs (z)")
    left, what = rewritten(model)
    assert left == ["Add", "Abs"]
    assert what == ["a constant: computed"]


def test_weights_that_are_moved_and_scaled_are_left_to_tensorrt(tmp_path: Path) -> None:
    left, what = rewritten(
        model_of(tmp_path, WEIGHTS + "p = Mul (table, half)\n z = Add (x, p)\n y = Abs (z)")
    )
    assert left == ["Transpose", "Unsqueeze", "Mul", "Add", "Abs"]
    assert not what


@pytest.mark.parametrize("name", ["mask", "a"])
def test_what_a_branch_returns_stays(tmp_path: Path, name: str) -> None:
    """A value of the main graph, without a node of the branch's own: no node reads it there."""
    other = "else_branch = h () => (float[1,80,80] q) { q = Neg (x) }"
    body = f"""{MASK}
        mask = Where (seen, zero, closed)
        b = Relu (x)
        a = Add (b, mask)
        s = ReduceSum <keepdims = 0> (x)
        positive = Greater (s, zero)
        z = If (positive) <then_branch = g () => (float[1,80,80] {name}) {{}}, {other}>
        y = Sub (a, z)
        """
    left = rewrite(model_of(tmp_path, body)).model.proto.graph
    assert name in [out for node in left.node for out in node.output]


@pytest.mark.parametrize(
    ("limit", "most"), [("MOST_KEPT", 6399), ("MOST_COMPUTED", 12000), ("MOST_HELD", 12000)]
)
def test_what_is_too_large_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(generated, limit, most)
    left, what = rewritten(model_of(tmp_path, KEPT["positions"]))
    assert left.count("Add") == 1
    assert not what


@pytest.mark.parametrize("most", [6400 * 6400, 80 * 6400])
def test_a_sum_of_products_costs_more_than_its_elements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(generated, "MOST_COMPUTED", 2 * most)
    body = 'e = Expand (half, sizes)\n p = Einsum <equation = "aij,jk->ik"> (e, w)\n z = Add (x, p)\n y = Abs (z)'
    left, _ = rewritten(model_of(tmp_path, body))
    assert ("Einsum" in left) == (most < 6400 * 6400)


def test_many_values_that_one_node_reads_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Concat of 60 was asked for the shapes of all its inputs for each of them: 3,000 took two minutes."""
    count = 60
    ones = "\n".join(f"v{i} = Expand (one, shape)" for i in range(count))
    body = f"{ones}\n y = Concat <axis = 1> (x, {', '.join(f'v{i}' for i in range(count))})"
    monkeypatch.setitem(CONSTANTS, "shape", np.array([1, 80, 80], np.int64))
    model = model_of(tmp_path, body)
    asked: Counter[str] = Counter()
    dims = Scope.dims

    def counted(scope: Scope, name: str) -> tuple[Dim, ...] | None:
        asked[name] += 1
        return dims(scope, name)

    monkeypatch.setattr(Scope, "dims", counted)
    generated.fold_generated(Graph(model))
    assert asked["v0"] and max(asked[f"v{i}"] for i in range(count)) < count
