"""Defines the public function `rewrite` and its options.

The example is of a model.onnx that computes the Inverse of com.microsoft of the Neg of an input x of shape (n, 4, 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from typing_extensions import TypedDict, Unpack

from trtsmith.arguments import (
    Example,
    ModelLike,
    model_of,
    output_of,
    stage_options,
    with_operators,
)
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import only, with_defaults
from trtsmith.converter.base.options.kinds import Flag, GraphRuntime, StrPath
from trtsmith.converter.convert.analysis import Analysis
from trtsmith.converter.convert.conversion_options import ConvertOptions
from trtsmith.converter.convert.freezing import FreezingOptions
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.rewriting import ONNXRUNTIME_FORM, REWRITTEN_FORM, rewrite_model
from trtsmith.converter.engine.builder.build_request import BuilderOptions
from trtsmith.options import Operators, Replacing, Shapes, Torch


class GraphFile(Replacing, total=False):
    """output"""

    output: Annotated[
        StrPath | None,
        Flag(
            "the .onnx file to write; default: the model's name with .rewritten.onnx (.expanded.onnx, .plugin-v2.onnx, "
            ".onnxruntime.onnx), in the current folder",
            "OUT",
            "-o",
            "--output",
            common=True,
        ),
    ]


class GraphForm(TypedDict, total=False):
    """output"""

    expand: Annotated[
        bool,
        Flag("expand custom operators into standard ones, for plain onnxruntime", alone="form", common=True),
    ]
    plugin_v2: Annotated[
        bool, Flag("write plugin nodes for the V2 plugins of TensorRT 8.6 to 10", alone="form", common=True)
    ]
    runtime: Annotated[
        GraphRuntime,
        Flag(
            "write plugin nodes for onnxruntime's TensorRT provider, and print the lines that open its session",
            "",
            "--for",
            alone="form",
            common=True,
        ),
    ]


GRAPH = (
    *(Torch, Shapes, FreezingOptions, PrecisionRequest, GraphFile),
    *(only(BuilderOptions, "output", "flavour"), GraphForm, Operators),
)
"""The options of `trtsmith rewrite`."""


def form_of(given: Any) -> str:
    """The requested form of the graph. UsageError for more than one."""
    asked = {
        "--expand": given.expand and "expanded",
        "--plugin-v2": given.plugin_v2 and "plugin-v2",
        "--for onnxruntime": given.runtime,
    }
    if given.runtime not in get_args(GraphRuntime):
        what = f"there is no form of the graph for {given.runtime!r}"
        raise UsageError(what, "--for", ONNXRUNTIME_FORM, f"give {ONNXRUNTIME_FORM}, or leave it out")
    flags = [flag for flag, form in asked.items() if form]
    if len(flags) > 1:
        what = f"{flags[0]} and {flags[1]} are both given"
        raise UsageError(what, " ".join(flags), "one form of the graph", "remove one")
    return asked[flags[0]] if flags else REWRITTEN_FORM


def rewriting_of(model: GivenModel, output: Path | None, given: Any) -> ConvertOptions:
    return stage_options(
        ConvertOptions,
        GRAPH,
        given,
        model=model,
        output=output,
        precision=stage_options(PrecisionRequest, GRAPH, given),
    )


@with_operators(GRAPH)
def rewrite(
    model: ModelLike,
    args: Example = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.RewriteKeywords],
) -> Analysis:
    """Rewrites a model into TensorRT's graph, with plugin nodes, and writes it to a file if `output` names one.

    expand:    whether to expand custom operators into standard ones, for plain onnxruntime.
    plugin_v2: whether to write nodes of V2 plugins, for TensorRT 8.6 to 10.
    runtime:   "onnxruntime": write plugin nodes for onnxruntime's TensorRT provider; "": for TensorRT.

    Other arguments are those of `convert`; with `shapes` the graph holds for these only. In the result, `rewritten.rewrites`
    lists the changes, and `graph.proto` is the graph, whose weights stay in the model's files.

    >>> import trtsmith
    >>> analysis = trtsmith.rewrite("model.onnx", "rewritten.onnx")
    >>> [node.domain for node in analysis.graph.proto.graph.node]
    ['', 'trtsmith']
    >>> trtsmith.rewrite("model.onnx", "expanded.onnx", expand=True).graph.proto.graph.node[1].domain
    ''

    Raises ConversionError for nodes that cannot be rewritten, InvalidModelError and UsageError.
    """
    given = with_defaults(GRAPH, options)
    source, output = model_of(model, args, kwargs, given), output_of(given.output, args)
    asked = rewriting_of(source, output, given)
    return rewrite_model(asked, form=form_of(given))
