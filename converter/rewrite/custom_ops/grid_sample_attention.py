"""Replaces multi-scale deformable attention that was exported as GridSample nodes by one plugin node.

The formula is the PyTorch fallback of Deformable DETR and mmcv: value is cut into levels, each is sampled by a
GridSample at `2 * location - 1`, the samples are stacked, multiplied with the attention weights and summed.

Exporters write the movements between these steps in many ways (Split, Slice or Gather; Squeeze, Flatten or Reshape;
shapes as constants or computed by the graph), so none of them is matched literally. The pass looks for the operators
that compute (GridSample, Concat, Mul, ReduceSum) and proves with `layout` that what lies between them moves each element
to where the plugin expects it, for every batch. A tensor in another order than the plugin's gets a Reshape and a
Transpose. What cannot be proved is left alone, with the node and the reason: TensorRT runs GridSample itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_graphsurgeon as gs
from onnx import TensorProto

from trtsmith.converter.rewrite.custom_ops.graphsurgeon import dtype_of
from trtsmith.converter.rewrite.custom_ops.grid_sample_proof import Match, prove
from trtsmith.converter.rewrite.custom_ops.grid_sample_roles import Chain, find_chain, is_grid_sample
from trtsmith.converter.rewrite.custom_ops.layout import UnprovedError
from trtsmith.converter.rewrite.custom_ops.surgery import all_graphs, domain_of, ensure_domain
from trtsmith.converter.rewrite.custom_ops.traces import climb, place, producer
from trtsmith.converter.rewrite.engine.records import Declined, Record, Rewrite
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Refusal
from trtsmith.importers.registry import OPS

NAME = "grid-sample-attention"
OP = next(op for op in OPS if op.chain == NAME)

_FIX = "none is needed, TensorRT runs GridSample; for the plugin, export the attention as Deformable DETR writes it"


def map_grid_sample_attention(graph: gs.Graph) -> Iterator[Record]:
    """Replaces every chain that is proved to compute the plugin's formula."""
    for part in all_graphs(graph):
        if not any(node.op == "GridSample" and not domain_of(node) for node in part.nodes):
            continue
        kept = {id(tensor) for tensor in part.outputs}
        own = {id(node) for node in part.nodes}
        removed: set[int] = set()
        added: dict[int, list[gs.Node]] = {}
        constants: dict[bytes, gs.Constant] = {}
        joins = {id(node): node for node in part.nodes if _joins_levels(node)}
        for node in part.nodes:
            if id(node) in removed or node.op != "ReduceSum" or domain_of(node):
                continue
            try:
                chain = find_chain(node)
                if chain is None:
                    continue
                joins.pop(id(chain.concat), None)
                match = prove(chain, kept)
                end = match.output.inputs[0]
                dead = _dead_without(end, chain, match, own, kept)
            except UnprovedError as error:
                culprit = error.node or node
                joins.pop(id(culprit), None)
                refusal = Refusal(error.reason, error.expected, _FIX)
                yield Declined(_name(culprit), culprit.op, NAME, refusal, fatal=False)
                continue
            name = f"{match.output.name}/{OP.name}"
            what = f"plugin {OP.name}, for the sum of {len(chain.samples)} sampled level(s)"
            yield Rewrite(_name(end), end.op, NAME, what, name)
            removed |= {id(old) for old in dead}
            for old in dead:
                old.inputs.clear()
                old.outputs.clear()
            added[id(end)] = _plugin_nodes(match, name, constants)
        for node in joins.values():
            reason = (
                f"{len(node.inputs)} sampled images are joined, but not multiplied with weights and summed"
            )
            refusal = Refusal(
                reason, "Mul and ReduceSum after it, for multi-scale deformable attention", _FIX
            )
            yield Declined(_name(node), node.op, NAME, refusal, fatal=False)
        if removed:
            part.nodes[:] = [
                n for old in part.nodes for n in added.get(id(old), () if id(old) in removed else (old,))
            ]
            ensure_domain(graph, PLUGIN_NAMESPACE)


def _name(node: gs.Node) -> str:
    return str(node.name or (node.outputs[0].name if node.outputs else node.op))


def _joins_levels(node: gs.Node) -> bool:
    """Whether a Concat joins the results of several GridSamples."""
    if node.op != "Concat" or len(node.inputs) < 2:
        return False
    tops = [steps[-1].source if (steps := climb(tensor)) else tensor for tensor in node.inputs]
    return all(is_grid_sample(producer(top)) for top in tops)


def _dead_without(end: gs.Node, chain: Chain, match: Match, own: set[int], kept: set[int]) -> list[gs.Node]:
    """The nodes that become unused when the plugin computes the output of `end`. Raises UnprovedError if others read the
    chain.

    own: ids of the nodes of this graph; kept: ids of its outputs.
    """
    kept = kept | {id(source.origin.tensor) for source in (match.value, match.locations, match.weights)}
    dead = [end]
    gone = {id(end)}
    for node in dead:  # grows while it is walked
        for tensor in node.inputs:
            for maker in tensor.inputs:
                if id(maker) in own and id(maker) not in gone and not _needed(maker, kept, gone):
                    gone.add(id(maker))
                    dead.append(maker)
    for node in (*match.outgoing, *chain.nodes()):
        if id(node) not in gone:
            tensor = next(
                (t for t in node.outputs if id(t) in kept or any(id(u) not in gone for u in t.outputs)), None
            )
            name = tensor.name if tensor is not None else _name(node)
            users = (
                [_name(user) for user in tensor.outputs if id(user) not in gone] if tensor is not None else []
            )
            by = ", ".join(map(repr, users)) or "the graph's outputs"
            raise UnprovedError(f"{name!r} is also used by {by}", "values that only the attention uses", node)
    return dead


def _needed(node: gs.Node, kept: set[int], gone: set[int]) -> bool:
    return any(
        id(tensor) in kept or any(id(user) not in gone for user in tensor.outputs) for tensor in node.outputs
    )


def _plugin_nodes(match: Match, name: str, constants: dict[bytes, gs.Constant]) -> list[gs.Node]:
    """The plugin node, after the nodes that rearrange its inputs. `constants`, by value, are shared within a graph."""
    nodes: list[gs.Node] = []
    inputs: dict[str, gs.Tensor] = {
        "spatial_shapes": _constant(f"{name}/spatial_shapes", np.array(match.shapes, np.int64), constants),
        "level_start_index": _constant(
            f"{name}/level_start_index", np.array(match.starts, np.int64), constants
        ),
    }
    sources = {
        "value": match.value,
        "sampling_locations": match.locations,
        "attention_weights": match.weights,
    }
    for port, source in sources.items():
        inputs[port], before = place(source.origin.tensor, source.order, f"{name}/{port}")
        nodes += before
        if dtype_of(source.origin.tensor) == np.float64:
            cast = gs.Variable(f"{name}/{port}/float32", np.float32)
            nodes.append(gs.Node("Cast", cast.name, {"to": TensorProto.FLOAT}, [inputs[port]], [cast]))
            inputs[port] = cast
    attributes = plugin_attributes(OP, {})
    ports = [inputs[port.name] for port in OP.inputs]
    nodes.append(gs.Node(OP.name, name, attributes, ports, [match.output], domain=PLUGIN_NAMESPACE))
    return nodes


def _constant(name: str, values: np.ndarray, constants: dict[bytes, gs.Constant]) -> gs.Constant:
    key = repr(values.shape).encode() + values.tobytes()
    return constants.setdefault(key, gs.Constant(name, values))
