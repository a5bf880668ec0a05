"""Rewrites a model file for TensorRT, TensorRT 8.6 to 10 with V2 plugins, plain onnxruntime, or its TensorRT provider.

A node of a V2 plugin is the same: op_type, `plugin_version`, `plugin_namespace` and the fields as attributes are what a
parser of 8.6 looks at. What differs is the types: TensorRT before 10 has neither 64-bit integers nor bfloat16 as plugin
inputs.

onnxruntime's TensorRT provider makes an operator of its domain `trt.plugins` of each creator in TensorRT's plugin registry
(microsoft/onnxruntime, tensorrt_execution_provider_custom_ops.cc), and takes the types of outputs from the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import onnx
from onnx import TensorProto, helper

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.output_file import check_report
from trtsmith.converter.base.own_files import REWRITTEN
from trtsmith.converter.base.progress import Progress, Steps, progress_reports, silent
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions, analysis_options
from trtsmith.converter.convert.opening import open_model
from trtsmith.converter.convert.trial_inputs import analyse_opened
from trtsmith.converter.engine.builder.flavour import expected_target
from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_marked
from trtsmith.converter.rewrite.rewrite import expand as expanded
from trtsmith.converter.rewrite.target import TENSORRT
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import PROVIDER_DOMAIN, by_name

REWRITTEN_FORM, ONNXRUNTIME_FORM = "rewritten", "onnxruntime"


def rewrite_model(
    options: ConvertOptions,
    progress: Progress | None = None,
    form: str = REWRITTEN_FORM,
) -> Analysis:
    """Analyses the model. The result's `graph` is the requested graph, also written to the output file if one is named.

    form: one of FORMS.
    A graph that TensorRT will refuse is written too: `problems` says why. ConversionError: nodes that a pass knows, and
    refuses to take as they are.
    """
    with progress_reports(progress or silent) as telling:
        return _rewritten(options, telling, form)


def _rewritten(options: ConvertOptions, progress: Steps, form: str) -> Analysis:
    target = TENSORRT if form in _FOR_TENSORRT else expected_target(options.flavour)
    compiled = form == ONNXRUNTIME_FORM  # whose session loads the libraries
    asked = replace(
        analysis_options(options), target=target, whole=False, compiled=compiled, progress=progress
    )
    progress.step("loading the model")
    check_report(options.output, (options.model,), "-o", "the graph", REWRITTEN, force=options.force)
    opened = open_model(options.model, progress, force=options.force)
    analysis = analyse_opened(opened, options, asked)
    fatal = [record.problem() for record in analysis.rewritten.declined if record.fatal]
    if fatal:
        raise ConversionError(fatal)
    analysis = replace(analysis, graph=FORMS[form](analysis.graph))
    if options.output is not None:
        progress.step("saving the rewritten graph")
        save_marked(analysis.graph, options.output, REWRITTEN)
    return analysis


def for_plugin_v2(model: Model) -> Model:
    """Returns the graph with index inputs of plugin nodes cast to 32 bits. Raises ConversionError for bfloat16, and for
    plugins without a V2 form.
    """
    proto = model.copied()
    dtypes = value_dtypes(proto)
    problems: list[Problem] = []
    _cast_graph(proto.graph, dtypes, problems)
    if problems:
        raise ConversionError(problems)
    return model.with_proto(proto)


def _cast_graph(graph: onnx.GraphProto, dtypes: dict[str, str], problems: list[Problem]) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                if subgraph.node:
                    _cast_graph(subgraph, dtypes, problems)
        if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
            nodes.extend(_casts(node, dtypes, problems))
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _casts(node: onnx.NodeProto, dtypes: dict[str, str], problems: list[Problem]) -> list[onnx.NodeProto]:
    casts = []
    if by_name()[node.op_type].data_dependent:
        problems.append(
            Problem(
                f"the sizes of {node.op_type}'s outputs depend on values",
                f"node {node.name!r} ({node.op_type})",
                "a plugin whose output shapes follow from its input shapes: V2 has no others",
                "build for TensorRT 10 or later without --plugin-v2, or declare the output's sizes in the model",
            )
        )
    for position, port in enumerate(by_name()[node.op_type].inputs[: len(node.input)]):
        value = node.input[position]
        if dtypes.get(value) == "bfloat16":
            problems.append(
                Problem(
                    f"input {port.name!r} is bfloat16",
                    f"node {node.name!r} ({node.op_type})",
                    "float32 or float16, which V2 plugins of TensorRT 8.6 take",
                    "export the model in float16, or build for TensorRT 10 without --plugin-v2",
                )
            )
        if port.type == "I" and dtypes.get(value) != "int32":
            cast = f"{node.name}/{port.name}_int32"
            casts.append(helper.make_node("Cast", [value], [cast], name=cast, to=TensorProto.INT32))
            node.input[position] = cast
    return casts


def for_onnxruntime(model: Model) -> Model:
    """Plugin nodes in the domain of onnxruntime's TensorRT provider."""
    proto = model.copied()
    plugins = [
        node
        for graph in all_graphs(proto.graph)
        for node in graph.node
        if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name()
    ]
    for node in plugins:
        node.domain = PROVIDER_DOMAIN
    if plugins and all(entry.domain != PROVIDER_DOMAIN for entry in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(PROVIDER_DOMAIN, 1))
    return model.with_proto(proto)


FORMS: Mapping[str, Callable[[Model], Model]] = {
    REWRITTEN_FORM: lambda model: model,
    "expanded": expanded,
    "plugin-v2": for_plugin_v2,
    ONNXRUNTIME_FORM: for_onnxruntime,
}
"""Makes a form of the rewritten graph, by its name in files."""

_FOR_TENSORRT = ("plugin-v2", ONNXRUNTIME_FORM)
