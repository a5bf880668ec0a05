"""Rewrites our plugin nodes where TensorRT cannot run the plugin.

Expands operators that have no kernel: TensorRT gets standard operators in their place.

Copies what a plugin wrote before it is joined to other columns for a product of matrices.

TensorRT-RTX 1.6.1 computes some functions of that product from other numbers: a graph network that joins summed messages and
their norms, [nodes, 128] each, had a wrong Sigmoid of the Gemm behind them, in the same rows in every run, on an H200. With
a copy of the plugin's result, of the norms or of both joined it is right, and so is it with ScatterElements in place of the
plugin; copies of the plugin's inputs change nothing. Plugins' results that are joined for convolutions are right.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.function_body import function_nodes
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.expansion import ExpansionError, function_of
from trtsmith.importers.registry import by_name

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.7.1",),
        "fails to build a plugin that asks for a workspace in a branch of an If",
        "a build, which ends in op_with_valid_shape<custom_layer_op_t> and a size named _wksp",
    ),
)


@node_rule("workspace-in-branch", plugins=lambda op: op.workspace, faults=_FAULTS)
def workspace_in_branch_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites plugins that need a workspace inside a branch of an If."""
    if "If" not in node.inside():
        return None
    op = by_name()[node.op_type]
    if op.data_dependent or node.opset < op.expansion_opset:
        return Refusal(
            f"{node.op_type} in a branch of an If: {_FAULTS[0]}",
            "the node outside the If, or a model of opset 11 or later that declares the sizes of the node's outputs",
            "move the node before the If and let the branch read its outputs, or build with --flavour tensorrt",
        )
    dtypes = {name: dtype for i, name in enumerate(node.inputs) if (dtype := node.dtype(i)) is not None}
    nodes = function_nodes(node, function_of(node.proto, dtypes, node.opset))
    note = node.because(_FAULTS, "the operator is made of standard ones")
    return Replacement(nodes, f"{node.op_type} as standard operators", notes=(note,))


_COLUMN_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "computes functions of a product of matrices wrongly behind a Concat of columns that a plugin wrote",
        "a graph network as an engine on an H200, and copies in its parts",
    ),
)

_VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


@node_rule("plugin-columns", "Concat", faults=_COLUMN_FAULTS)
def plugin_columns_rule(node: NodeView) -> Replacement | None:
    """Copies what a plugin wrote before a Concat for a product of matrices."""
    if not any(reader is not None and reader.op_type in ("Gemm", "MatMul") for reader in node.readers(0)):
        return None
    written = [_is_by_plugin(node.maker(index)) for index in range(len(node.inputs))]
    if not any(written):
        return None
    w = Writer(node)
    values = [w.real_copy(x) if by_plugin else x for x, by_plugin in zip(w.x, written, strict=True)]
    return Replacement(
        w.finish(w.Concat(*values, axis=node.attributes["axis"])),
        "what a plugin wrote is copied",
        notes=(node.because(_COLUMN_FAULTS, "a copy keeps them apart"),),
    )


def _is_by_plugin(maker: NodeView | None) -> bool:
    while maker is not None and maker.is_a(*_VIEWS):
        maker = maker.maker(0)
    return maker is not None and bool(maker.domain)


@node_rule(
    "without-kernel",
    plugins=lambda op: op.by_expansion,
    opset=lambda node: by_name()[node.op_type].expansion_opset,
)
def without_kernel_rule(node: NodeView) -> Replacement | Refusal:
    """Expands operators without a kernel into standard operators."""
    op = by_name()[node.op_type]
    dtypes = {name: dtype for i, name in enumerate(node.inputs) if (dtype := node.dtype(i)) is not None}
    try:
        nodes = function_nodes(node, function_of(node.proto, dtypes, node.opset))
    except ExpansionError as error:
        what = f"{op.name} has no kernel, and its expansion cannot be written: {error}"
        return Refusal(what, error.expected, f"{error.fix}, or write a kernel for the operator")
    note = f"{op.name} has no kernel: TensorRT computes its expansion, made of standard operators"
    return Replacement(nodes, f"{op.name} by its expansion, as it has no kernel", notes=(note,))
