"""Scans unrolled by exporters: which are taken, with which operands, and which variants stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from tests.rule_examples.recurrent.unrolled_scan import TRANSFORMERS, gated, model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, rewrite
from trtsmith.converter.rewrite.rules.recurrent.unrolled_scan import PLUGIN
from trtsmith.converter.rewrite.target import RTX

TAKEN = model(*TRANSFORMERS)


def scans(text: str) -> list[onnx.NodeProto]:
    parsed = onnx.parser.parse_model(text)
    onnx.checker.check_model(parsed, full_check=True)
    result = rewrite(Model(parsed, Path("model.onnx"), {}), RTX)
    assert not result.declined
    return [node for node in result.model.proto.graph.node if node.op_type == PLUGIN.name]


def test_all_of_the_loop_becomes_one_node() -> None:
    (scan,) = scans(TAKEN)
    assert {"delta_softplus": 1}.items() <= {a.name: a.i for a in scan.attribute}.items()


BROKEN = {
    "the decay of another token": (
        "d2 = Gather <axis = 2> (decay, i2)",
        "d2 = Gather <axis = 2> (decay, i1)",
    ),
    "the decay along another axis": ("d2 = Gather <axis = 2>", "d2 = Gather <axis = 3>"),
    "another decay": ("d2 = Gather <axis = 2> (decay", "d2 = Gather <axis = 2> (scaled"),
    "the input of another token": ("(added, i3)", "(added, i2)"),
    "another input": ("e3 = Gather <axis = 2> (added", "e3 = Gather <axis = 2> (left"),
    "the state of another token": ("k2 = Mul (d2, x1)", "k2 = Mul (d2, x0)"),
    "a state that is not zero at first": ("<value = float[1] {0}>", "<value = float[1] {1}>"),
    "a difference": ("x1 = Add", "x1 = Sub"),
    "a quotient": ("k1 = Mul", "k1 = Div"),
    "a product of both": ("x1 = Add", "x1 = Mul"),
    "a sum of both": ("k1 = Mul", "k1 = Add"),
    "C of another token": ("c1 = Gather <axis = 1> (c, i1)", "c1 = Gather <axis = 1> (c, i2)"),
    "C along another axis": ("c1 = Gather <axis = 1>", "c1 = Gather <axis = 2>"),
    "another C": ("c1 = Gather <axis = 1> (c", "c1 = Gather <axis = 1> (b"),
    "tokens in another order": ("(p0, p1, p2, p3)", "(p0, p2, p1, p3)"),
    "a token twice": ("(p0, p1, p2, p3)", "(p0, p1, p2, p2)"),
    "a square of the sum": ("m2 = MatMul (x2, v2)", "n2 = MatMul (x2, v2)\nm2 = Mul (n2, n2)"),
    "the state of another token for the sum": ("m2 = MatMul (x2, v2)", "m2 = MatMul (x1, v2)"),
    "no exponential": ("decay = Exp", "decay = Sigmoid"),
    "another step size for the input": (
        "left = Mul (wide, keys)",
        "bare = Unsqueeze (dt, axis3)\nleft = Mul (bare, keys)",
    ),
    "two maps for the input": ("added = Mul (left, right)", "added = Mul (left, keys)"),
    "a fourth factor": ("added = Mul (left, right)", "more = Mul (left, right)\nadded = Mul (more, a)"),
    "a last state that is read": ("float[2, 3, 4] y)", "float[2, 3, 4] y, float[2, 3, 4] x3)"),
    "rates of each image": ("float[1, 3, 1, 4] a", "float[2, 3, 1, 4] a"),
    "rates of each token": ("float[1, 3, 1, 4] a", "float[1, 3, 4, 4] a"),
    "the same rates for all channels": ("float[1, 3, 1, 4] a", "float[1, 1, 1, 4] a"),
    "the same input for all channels": ("float[2, 3, 4] u", "float[2, 1, 4] u"),
    "the same B for all images": ("float[2, 4, 4] b", "float[1, 4, 4] b"),
    "the same B for all tokens": ("float[2, 4, 4] b", "float[2, 1, 4] b"),
    "the same C for all images": ("float[2, 4, 4] c", "float[1, 4, 4] c"),
}


@pytest.mark.parametrize("part", BROKEN)
def test_another_part_leaves_the_graph_alone(part: str) -> None:
    old, new = BROKEN[part]
    assert old in TAKEN
    assert not scans(TAKEN.replace(old, new))


def test_what_follows_the_scan_is_in_its_node() -> None:
    text = gated(TAKEN)
    (scan,) = scans(text)
    assert len(scan.input) == len(PLUGIN.inputs)
    assert scan.output[0] == "y"


UNGATED = {
    "no gate": ("y = Mul (added_skip, gate)", "y = Identity (added_skip)", 7),
    "another sigmoid": ("shut = Sigmoid (z)", "shut = Sigmoid (u)", 7),
    "no sigmoid": ("shut = Sigmoid (z)", "shut = Tanh (z)", 7),
    "a gate of each channel": ("float[2, 3, 4] z", "float[1, 3, 4] z", 7),
    "a gate of unknown size": ("float[2, 3, 4] z", "float[2, 3, M] z", 7),
    "gate and sum of each other": ("y = Mul (added_skip", "y = Add (added_skip", 7),
    "sums that are read": ("float[2, 3, 4] y", "float[2, 3, 4] y, float[2, 3, 4] sums", 7),
    "sums with the input that are read": (
        "float[2, 3, 4] y",
        "float[2, 3, 4] y, float[2, 3, 4] added_skip",
        7,
    ),
    "a product with the sums": ("added_skip = Add (sums, skip)", "added_skip = Mul (sums, skip)", 7),
    "a sum with the input": ("skip = Mul (u, d)", "skip = Add (u, d)", 7),
    "the input twice": (
        "y = Mul (added_skip, gate)",
        "again = Add (added_skip, skip)\n        y = Mul (again, gate)",
        7,
    ),
    "another input": ("skip = Mul (u, d)", "skip = Mul (dt, d)", 7),
    "weights of tokens": ("float[3, 1] d", "float[3, 4] d", 7),
    "weights of tokens alone": ("float[3, 1] d", "float[4] d", 7),
    "one weight": ("float[3, 1] d", "float[1, 1] d", 7),
    "the gate ahead of the input": (
        "added_skip = Add (sums, skip)\n        y = Mul (added_skip, gate)",
        "shown = Mul (sums, gate)\n        y = Add (shown, skip)",
        8,
    ),
}


@pytest.mark.parametrize("part", UNGATED)
def test_another_part_behind_the_scan_stays_there(part: str) -> None:
    old, new, operands = UNGATED[part]
    text = gated(TAKEN)
    assert old in text
    (scan,) = scans(text.replace(old, new))
    assert len(scan.input) == operands


def test_a_scan_whose_last_states_are_read_keeps_them_alone() -> None:
    """Absorbing would compute the scan twice."""
    (scan,) = scans("""<ir_version: 9, opset_import: ["" : 18, "mamba_ssm" : 1]>
        g (float[2, 3, 4] u, float[2, 3, 4] dt, float[3, 4] a, float[2, 4, 4] b, float[2, 4, 4] c, float[2, 3, 4] z)
            => (float[2, 3, 4] y, float[2, 3, 4] last) {
            sums, last = mamba_ssm.SelectiveScan (u, dt, a, b, c)
            shut = Sigmoid (z)
            gate = Mul (z, shut)
            y = Mul (sums, gate)
        }""")
    assert len(scan.input) == 7


@pytest.mark.parametrize(
    ("old", "new", "soft"),
    [
        ("float limit = {20}", "float limit = {5}", 0),
        ("Where (above, dt, soft)", "Where (above, soft, dt)", 0),
        ("Greater (dt, limit)", "Greater (u, limit)", 0),
        ("wide = Unsqueeze (steps", "wide = Unsqueeze (soft", 1),
    ],
)
def test_softplus_is_the_plugins_where_it_is_one(old: str, new: str, soft: int) -> None:
    assert old in TAKEN
    (scan,) = scans(TAKEN.replace(old, new))
    assert {"delta_softplus": soft}.items() <= {a.name: a.i for a in scan.attribute}.items()


def test_constants_that_are_not_finite_are_left_alone() -> None:
    """The plugin wants finite rates: exp(-inf * 0) is no number."""
    rates = ", ".join(["-1.0"] * 12)
    frozen = TAKEN.replace("float[1, 3, 1, 4] a, ", "").replace(
        "float limit", f"float[1, 3, 1, 4] a = {{{rates}}}, float limit"
    )
    assert scans(frozen)
    parsed = onnx.parser.parse_model(frozen)
    (tensor,) = (t for t in parsed.graph.initializer if t.name == "a")
    values = onnx.numpy_helper.to_array(tensor).copy()
    values[0, 0, 0, 0] = -np.inf
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, "a"))
    result = rewrite(Model(parsed, Path("model.onnx"), {}), RTX)
    assert all(node.op_type != PLUGIN.name for node in result.model.proto.graph.node)


class Reference(torch.nn.Module):
    """A loop over tokens as mamba_ssm's selective_scan_ref has it, or transformers where `matrices`."""

    def __init__(self, matrices: bool) -> None:
        super().__init__()
        self.matrices = matrices
        self.rates = torch.nn.Parameter(-torch.rand(6, 4))
        self.bias = torch.nn.Parameter(torch.rand(6))

    def forward(self, u: Any, dt: Any, b: Any, c: Any) -> Any:
        dt = torch.nn.functional.softplus(dt + self.bias[:, None])
        if self.matrices:
            decay = torch.exp(self.rates[None, :, None, :] * dt[:, :, :, None])
            added = dt[:, :, :, None] * b.transpose(1, 2)[:, None, :, :].float() * u[:, :, :, None].float()
        else:
            decay = torch.exp(torch.einsum("bdl,dn->bdln", dt, self.rates))
            added = torch.einsum("bdl,bnl,bdl->bdln", dt, b, u)
        state, results = torch.zeros(u.shape[0], 6, 4, dtype=u.dtype), []
        for t in range(5):
            state = decay[:, :, t] * state + added[:, :, t]
            if self.matrices:
                results.append(torch.matmul(state.to(u.dtype), c[:, :, t].unsqueeze(-1))[:, :, 0])
            else:
                results.append(torch.einsum("bdn,bn->bd", state, c[:, :, t]))
        return torch.stack(results, dim=-1) * 2.0


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("matrices", [True, False])
def test_what_pytorch_exports_is_taken(matrices: bool, dynamo: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    path, names = tmp_path / "scan.onnx", ["u", "dt", "b", "c"]
    feeds = {name: torch.rand(2, 4 if name in "bc" else 6, 5) for name in names}
    batch: dict[str, Any] = (
        {"dynamic_shapes": tuple({0: torch.export.Dim("n")} for _ in names), "external_data": False}
        if dynamo
        else {"dynamic_axes": {name: {0: "n"} for name in names}}
    )
    module = Reference(matrices).eval()
    torch.onnx.export(
        module,
        tuple(feeds.values()),
        str(path),
        dynamo=dynamo,
        input_names=names,
        opset_version=18,
        verbose=False,
        **batch,
    )
    result = rewrite(Model(onnx.load(path), path, {}), RTX)
    assert sum(node.op_type == PLUGIN.name for node in result.model.proto.graph.node) == 1
    (found,) = run(expand(result.model), {name: tensor.numpy() for name, tensor in feeds.items()}).values()
    np.testing.assert_allclose(found, module(**feeds).detach().numpy(), rtol=1e-5, atol=1e-6)
