"""Makes the minimal model of a fault: the node with the tensors that it had."""

from __future__ import annotations

import numpy as np
import onnx

from trtsmith.converter.locate.describe import ranges
from trtsmith.converter.locate.executors.executor import Arrays, Onnxruntime
from trtsmith.converter.locate.fault_graph import GraphView, op_name
from trtsmith.converter.locate.node_fault import NodeFault
from trtsmith.converter.locate.options import ReplayKernel
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.region import Region, region_model, region_of, sizes_among
from trtsmith.converter.locate.save_repro import Reproducer
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.importers.expansion import plugin_nodes


def reproducer(view: GraphView, fault: NodeFault) -> Reproducer:
    """Makes a model of a node that is wrong where it was run. Sizes are constants of the model."""
    region = fault.region
    constants = sizes_among(view, region, fault.given)
    outputs = {name: fault.given[name] for name in region.outputs}
    model = region_model(view, region, fault.given, [_info(n, a) for n, a in outputs.items()], constants)
    inputs = {name: np.asarray(fault.given[name]) for name in region.inputs if name not in constants}
    expected = Onnxruntime().execute(model, inputs)
    plugin = any(True for _ in plugin_nodes(model.proto.graph))
    return Reproducer(model, inputs, expected, outputs, _text(view, fault, "", inputs, outputs), plugin)


def rewrite_reproducer(original: Model, view: GraphView, fault: NodeFault, given: Arrays) -> Reproducer:
    """Makes a model of the nodes that the rewrite got wrong, from the original, so that rewriting it shows the fault again.

    given: values of the original. expected: what the original made of them; actual: what the rewritten nodes make.
    """
    source = GraphView(original)
    region = _original_region(source, fault, given)
    outputs = {name: fault.given[name] for name in region.outputs}
    infos = [_info(name, array) for name, array in outputs.items()]
    model = region_model(source, region, given, infos)
    inputs = {name: np.asarray(given[name]) for name in region.inputs}
    rewritten = region_model(
        view, fault.region, fault.given, [_info(n, fault.given[n]) for n in fault.region.outputs]
    )
    actual = Onnxruntime().execute(rewritten, {name: fault.given[name] for name in fault.region.inputs})
    expected = Onnxruntime().execute(reference(model), inputs)
    text = _text(view, fault, "after the rewrite, ", inputs, expected)
    return Reproducer(model, inputs, expected, actual, text, rewritten=rewritten)


def kernel_alone(replay: ReplayKernel | None, saved: Reproducer) -> str:
    """What the plugin's kernel gives for the same inputs, without TensorRT."""
    ran = replay(saved.model, saved.inputs, saved.expected) if replay is not None else None
    if ran is None:
        return "not run: there is no GPU here; `trtsmith plugin replay` runs the saved node on a machine with one"
    return f"{ran.verdict} ({ran.text})"


def _original_region(source: GraphView, fault: NodeFault, given: Arrays) -> Region:
    """The original's nodes behind the outputs of the fault, back to values that are known."""
    makers = dict.fromkeys(source.producer[name] for name in fault.region.outputs)
    regions = [region_of(source, index, given) for index in makers]
    return Region(
        tuple(sorted({i for region in regions for i in region.nodes})),
        tuple(dict.fromkeys(name for region in regions for name in region.inputs)),
        tuple(dict.fromkeys(name for region in regions for name in region.outputs)),
    )


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return Value(name, str(array.dtype), array.shape).info()


def _text(view: GraphView, fault: NodeFault, when: str, inputs: Arrays, outputs: Arrays) -> str:
    node = view.nodes[fault.node]
    wrong = "; ".join(f"{c.output}: {c.reason}" for c in fault.local if not c.agrees)
    return (
        f"Node {view.label(fault.node)!r} ({op_name(node)}): {when}{wrong}\n\ninputs:\n{ranges(inputs)}\n"
        f"outputs:\n{ranges(outputs)}"
    )
