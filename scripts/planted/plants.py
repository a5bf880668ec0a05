"""Lists the errors to plant, each with the node that must be named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from models import MODELS
from planted import changes
from planted.changes import Change
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer


@dataclass(frozen=True)
class Plant:
    """An error to plant. model: one of models.MODELS, in its small form. node: the one to name, by its own or its original's
    name.

    change: what is planted in what is run; None for an error of the toolkit's own.
    kernel: whether the node is a plugin's; broken: whether it is the kernel that is broken and not what it is given.
    rule:   a rewrite rule that is wrong. importer: what an importer that is wrong writes other than the right one.
    """

    name: str
    model: str
    node: str
    change: Change | None = None
    kernel: bool = False
    broken: bool = False
    rule: NodeRule | None = None
    importer: Change | None = None


def _half_more(values: np.ndarray) -> np.ndarray:
    """Scales one output channel of a convolution by 1.5."""
    return np.concatenate([values[:1] * 1.5, values[1:]])


def _without_root(node: NodeView) -> Replacement:
    """Computes the Euclidean norm as the sum of squares, as if the root were forgotten."""
    w = Writer(node)
    squares = w.Mul(w.x[0], w.x[0])
    return Replacement(w.finish(w.ReduceSum(squares, *w.x[1:], keepdims=1)), "a sum of squares")


WRONG_RULE = NodeRule("norm-without-root", "a rule that is wrong", ("ReduceL2",), _without_root)

PLANTS = (
    Plant("a wrong weight", "geometry", "node_Conv_191", changes.weight("node_Conv_191", 1, _half_more)),
    Plant(
        "a wrong attribute of GridSample",
        "geometry",
        "node_GridSample_155",
        changes.attribute("node_GridSample_155", align_corners=1),
    ),
    Plant(
        "a wrong attribute of Conv",
        "centernet_dcn",
        "node_Conv_237",
        changes.attribute("node_Conv_237", pads=[0, 0, 2, 2]),
    ),
    Plant(
        "a wrong attribute of BatchNormalization",
        "centernet_dcn",
        "node__native_batch_norm_legit_no_training_14__0",
        changes.attribute("node__native_batch_norm_legit_no_training_14__0", epsilon=0.1),
    ),
    Plant("inputs in the wrong order", "geometry", "node_sub_33", changes.swapped("node_sub_33")),
    Plant(
        "a wrong axis",
        "deformable_detr",
        "node_Softmax_560",
        changes.attribute("node_Softmax_560", axis=-2),
    ),
    Plant(
        "an operator that is left out",
        "deformable_detr",
        "node_relu",
        changes.operator("node_relu", "Identity"),
    ),
    Plant(
        "a result in too narrow a type",  # float16 keeps the bits that TF32 does: engines of float32 are off by as much
        "geometry",
        "node_div_1",
        changes.narrowed("node_div_1", onnx.TensorProto.BFLOAT16),
    ),
    Plant(
        "a constant that was folded wrongly",
        "geometry",
        "node_div_2",
        changes.weight("node_div_2", 1, lambda size: size[:, ::-1]),
    ),
    Plant("a rewrite rule that is wrong", "geometry", "node_linalg_vector_norm", rule=WRONG_RULE),
    Plant(
        "an importer that is wrong",
        "centernet_dcn",
        MODELS["centernet_dcn"].plugin_node,
        importer=changes.attribute(
            MODELS["centernet_dcn"].plugin_node, dilation=[2, 2], padding=[2, 2, 2, 2]
        ),
    ),
    Plant(
        "a wrong plugin field",
        "centernet_dcn",
        MODELS["centernet_dcn"].plugin_node,
        changes.attribute(MODELS["centernet_dcn"].plugin_node, dilation=[2, 2], padding=[2, 2, 2, 2]),
        kernel=True,
    ),
    Plant(
        "a broken kernel",
        "geometry",
        MODELS["geometry"].plugin_node,
        changes.transposed(MODELS["geometry"].plugin_node),
        kernel=True,
        broken=True,
    ),
)
