"""The functions of the public API that end with a graph: `check` and `rewrite`, made as those of trtsmith.api are.

The examples are of a model.onnx that computes the Neg of an input x of shape (n, 4, 4), and of that com.microsoft::Inverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtsmith.arguments import (
    Arrays,
    Example,
    ModelLike,
    Paths,
    Ranges,
    Samples,
    StrPath,
    Texts,
    arrays_of,
    freeze_of,
    model_of,
    output_of,
    path_of,
    paths_of,
    precision_of,
    ranges_of,
    silent,
    targets_of,
    texts_of,
    with_operators,
)
from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.freezing import Freeze
from trtsmith.converter.convert.mending.refusals import REDUCE_S, refusals
from trtsmith.converter.convert.rewriting import RewriteOptions, rewrite_model
from trtsmith.converter.convert.trial_build import TrialBuild, check_model
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.shapes import parse_shapes


@with_operators
def check(
    model: ModelLike,
    args: Example = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    save_onnx: StrPath | None = None,
    export_timeout: float | None = None,
    data_folder: StrPath | None = None,
    flavour: str = "auto",
    shapes: Ranges | None = None,
    values: Ranges | None = None,
    freeze: Freeze = (),
    inputs: Arrays | None = None,
    plugins: Paths = (),
    prefer_stock: bool = False,
    precision: str = "",
    keep_fp32: Texts = (),
    accumulate: str = "",
    float_lstm: bool = False,
    io_precision: bool = False,
    calibration: Samples = (),
    build: bool = False,
    target: Texts = (),
    optimization_level: int | None = None,
    timeout: float | None = None,
    mend: bool = True,
    mend_with: Texts = (),
    reduce: bool = True,
    reduce_timeout: float = REDUCE_S,
    refused: StrPath | None = None,
    ops: Paths = (),
    plugins_from_packages: bool = True,
) -> Analysis:
    """How every node of a model reaches TensorRT, and everything that stands in the way. Needs no GPU and no TensorRT.

    build: whether an engine is built, too, and thrown away, for which TensorRT is needed. Only that tells whether TensorRT
        takes the graph: without it `convertible` says that every node has a route.

    Other arguments are those of `convert`; `shapes` and `values` may be left out, and decide nothing then. That a model
    cannot be converted is a result and no error.

    >>> import trtsmith
    >>> analysis = trtsmith.check("model.onnx")
    >>> analysis.convertible, analysis.problems
    (True, ())
    >>> for node in analysis.plan.nodes:
    ...     print(node.op_type, node.route.value)
    Neg native
    com.microsoft::Inverse plugin

    Raises InvalidModelError for what is no sound model, and UsageError.
    """
    options = AnalysisOptions(
        target=target_of(flavour, prefer_stock=prefer_stock),
        freeze=freeze_of(freeze),
        inputs=arrays_of(inputs, "inputs"),
        plugins=paths_of(plugins),
        precision=precision_of(precision, keep_fp32, accumulate, float_lstm, io_precision, calibration),
        profiles=(parse_shapes(ranges_of(shapes, "x", "{}")),),
        values=(parse_values(ranges_of(values, ",", "[{}]")),),
    )
    return check_model(
        model_of(
            model,
            args,
            kwargs,
            dynamic_shapes,
            custom_translation_table,
            save_onnx,
            export_timeout,
            data_folder,
        ),
        options,
        TrialBuild(
            asked=build,
            flavour=flavour,
            targets=targets_of(target),
            optimization_level=optimization_level,
            timeout_s=timeout,
            refusals=refusals(
                None,
                path_of(refused),
                mend=mend,
                mend_with=texts_of(mend_with),
                reduce=reduce,
                reduce_timeout=reduce_timeout,
            ),
        ),
        silent,
    )


@with_operators
def rewrite(
    model: ModelLike,
    args: Example = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    output: StrPath | None = None,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Any] | None = None,
    save_onnx: StrPath | None = None,
    export_timeout: float | None = None,
    data_folder: StrPath | None = None,
    flavour: str = "auto",
    shapes: Ranges | None = None,
    values: Ranges | None = None,
    freeze: Freeze = (),
    inputs: Arrays | None = None,
    precision: str = "",
    keep_fp32: Texts = (),
    accumulate: str = "",
    float_lstm: bool = False,
    io_precision: bool = False,
    calibration: Samples = (),
    expand: bool = False,
    plugin_v2: bool = False,
    ops: Paths = (),
    plugins_from_packages: bool = True,
) -> Analysis:
    """The graph that TensorRT gets, with plugin nodes; it is written to a file if `output` names one.

    expand:    whether custom operators become standard ones, for plain onnxruntime.
    plugin_v2: whether plugin nodes are those of V2 plugins, for TensorRT 8.6 to 10.

    Other arguments are those of `convert`; with `shapes` the graph holds for these only. `rewritten.rewrites`
    of the result says what was done, and `graph.proto` is the
    graph, whose weights stay in the model's files.

    >>> import trtsmith
    >>> analysis = trtsmith.rewrite("model.onnx", "rewritten.onnx")
    >>> [node.domain for node in analysis.graph.proto.graph.node]
    ['', 'trtsmith']
    >>> trtsmith.rewrite("model.onnx", "expanded.onnx", expand=True).graph.proto.graph.node[1].domain
    ''

    Raises ConversionError for nodes that cannot be rewritten, InvalidModelError and UsageError.
    """
    options = RewriteOptions(
        model=model_of(
            model,
            args,
            kwargs,
            dynamic_shapes,
            custom_translation_table,
            save_onnx,
            export_timeout,
            data_folder,
        ),
        output=output_of(output, args),
        flavour=flavour,
        freeze=freeze_of(freeze),
        inputs=arrays_of(inputs, "inputs"),
        precision=precision_of(precision, keep_fp32, accumulate, float_lstm, io_precision, calibration),
        expand=expand,
        plugin_v2=plugin_v2,
        shapes=parse_shapes(ranges_of(shapes, "x", "{}")),
        values=parse_values(ranges_of(values, ",", "[{}]")),
    )
    return rewrite_model(options)
