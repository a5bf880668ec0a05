"""The functions of the public API. Each makes the options that the command of its name makes, and calls what it calls.

The examples are of a model.onnx that computes the Neg of an input x of shape (n, 4, 4), and of that com.microsoft::Inverse.
"""

from __future__ import annotations

from pathlib import Path

from trtsmith.arguments import (
    Paths,
    Progress,
    Ranges,
    References,
    StrPath,
    Texts,
    Tolerance,
    freeze_of,
    path_of,
    paths_of,
    precision_of,
    ranges_of,
    silent,
    texts_of,
    tolerances_of,
)
from trtsmith.converter.convert import pipeline, reports
from trtsmith.converter.convert.analysis import Analysis, AnalysisOptions, analyse
from trtsmith.converter.convert.foreign_nodes import target_of
from trtsmith.converter.convert.freezing import Freeze
from trtsmith.converter.convert.pipeline import Conversion, ConvertOptions
from trtsmith.converter.convert.reports import Report
from trtsmith.converter.convert.rewriting import RewriteOptions, rewrite_model
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.shapes import parse_shapes
from trtsmith.converter.verify.references import references_of
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.converter.verify.verify_bundle import VerifyOptions, verify_bundle


def check(
    model: StrPath,
    *,
    flavour: str = "auto",
    freeze: str | Freeze = (),
    inputs: StrPath | None = None,
    plugins: Paths = (),
    prefer_stock: bool = False,
    precision: str = "",
    keep_fp32: Texts = (),
    accumulate: str = "",
    io_precision: bool = False,
    calibration: Paths = (),
) -> Analysis:
    """How every node of a model reaches TensorRT, and everything that stands in the way. Needs no GPU and no TensorRT.

    Arguments are those of `convert`. That a model cannot be converted is a result and no error.

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
        inputs=path_of(inputs),
        plugins=paths_of(plugins),
        precision=precision_of(precision, keep_fp32, accumulate, io_precision, calibration),
    )
    return analyse(load_model(model), options)


def rewrite(
    model: StrPath,
    output: StrPath | None = None,
    *,
    flavour: str = "auto",
    freeze: str | Freeze = (),
    inputs: StrPath | None = None,
    precision: str = "",
    keep_fp32: Texts = (),
    accumulate: str = "",
    io_precision: bool = False,
    calibration: Paths = (),
    expand: bool = False,
    plugin_v2: bool = False,
) -> Analysis:
    """The graph that TensorRT gets, with plugin nodes; it is written to a file if `output` names one.

    expand:    whether custom operators become standard ones, for plain onnxruntime.
    plugin_v2: whether plugin nodes are those of V2 plugins, for TensorRT 8.6 to 10.

    Other arguments are those of `convert`. `rewritten.rewrites` of the result says what was done, and `graph.proto` is the
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
        model=Path(model),
        output=path_of(output),
        flavour=flavour,
        freeze=freeze_of(freeze),
        inputs=path_of(inputs),
        precision=precision_of(precision, keep_fp32, accumulate, io_precision, calibration),
        expand=expand,
        plugin_v2=plugin_v2,
    )
    return rewrite_model(options)


def convert(
    model: StrPath,
    output: StrPath,
    *,
    shapes: Ranges | None = None,
    values: Ranges | None = None,
    freeze: str | Freeze = (),
    inputs: StrPath | None = None,
    expected: StrPath | None = None,
    reference: References | None = None,
    precision: str = "",
    keep_fp32: Texts = (),
    accumulate: str = "",
    io_precision: bool = False,
    calibration: Paths = (),
    target: Texts = (),
    flavour: str = "auto",
    plugins: Paths = (),
    prefer_stock: bool = False,
    embed_plugins: bool = False,
    workspace: int | None = None,
    timing_cache: StrPath | None = None,
    optimization_level: int | None = None,
    layer_details: bool = False,
    timeout: float | None = None,
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    verify: str | None = "auto",
    verbose: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """A TensorRT engine of a model, with the plugin library that it needs and a manifest beside it, and the verdict on it.

    shapes:       of dynamic inputs, by name: one shape, or the smallest, usual and largest one.
    values:       of integer inputs that decide shapes, by name: a number, a list of numbers, or three lists as for `shapes`.
    freeze:       inputs that become constants: by name an array, a number or a list; or texts such as "axes=[0,1]".
    inputs:       an .npz file of inputs to compare with, else some are generated. Axes and other inputs that TensorRT wants
        constant are frozen to what is there.
    expected:     an .npz file of outputs to compare with; None: what the original model gives in onnxruntime.
    reference:    a function (or "module:function") that computes the model from its inputs; or functions by operator, which
        compute the nodes of that operator, from inputs and attributes, in onnxruntime's place. numpy or PyTorch.
    precision:    "fp32", "fp16", "bf16", "int8" or "fp8", for the nodes that bear it; "": the types of the model.
    keep_fp32:    nodes to leave in float32: names, patterns such as "/head/*", operators.
    accumulate:   with "fp16" and TensorRT-RTX, which sums products of float16 in float16, what stays in float32 for that:
        "fp16" nothing, "fp32" nodes of more than 256 products, "auto" or "" those that the outputs need.
    io_precision: whether inputs and outputs get the type of `precision` too.
    calibration:  .npz files of inputs for int8 and fp8.
    target:       GPUs to build for, such as "sm86"; (): the GPU that is there, else sm86.
    flavour:      "tensorrt", "tensorrt_rtx", or "auto": with a GPU tensorrt if it is there, else tensorrt_rtx.
    plugins:      plugin libraries of your own. They run code of their own.
    prefer_stock: whether nodes are left to the plugins that TensorRT itself brings, also where one of ours would do.
    embed_plugins: whether the plugin libraries go into the engine.
    workspace:    limit of TensorRT's workspace in MiB.
    timing_cache: a file, read and written, to build faster next time.
    optimization_level: of the builder, 0 to 5.
    layer_details: whether the engine can tell what each of its layers computes.
    timeout:      of the build, in seconds.
    rtol, atol:   a tolerance for all outputs, or tolerances by the name of the output.
    verify:       what is compared with onnxruntime: "graph", "engine" as well, or "auto": the engine as well if this
        machine's GPU is one that it is built for; None: nothing.
    verbose:      whether `progress` gets TensorRT's own messages too.
    progress:     gets a line of text for each thing that is begun or done.

    >>> import trtsmith
    >>> done = trtsmith.convert("model.onnx", "model.plan", shapes={"x": [(1, 4, 4), (2, 4, 4), (8, 4, 4)]})
    >>> done.passed, done.verdict.status
    (True, 'agree')
    >>> done.plan.routes()
    {'native': 1, 'plugin': 1}
    >>> done.bundle.engine.name, done.bundle.manifest.name, [path.name for path in done.bundle.libraries]
    ('model.plan', 'model.manifest.json', ['libtrtsmith_plugins.so'])

    Raises ConversionError, with every problem at once, for a model that cannot be converted or built; InvalidModelError;
    UsageError. That numbers disagree is a result and no error.
    """
    options = ConvertOptions(
        model=Path(model),
        output=Path(output),
        shapes=parse_shapes(ranges_of(shapes, "x", "{}")),
        values=parse_values(ranges_of(values, ",", "[{}]")),
        freeze=freeze_of(freeze),
        targets=texts_of(target),
        flavour=flavour,
        plugins=paths_of(plugins),
        prefer_stock=prefer_stock,
        inputs=path_of(inputs),
        expected=path_of(expected),
        tolerances=tolerances_of(rtol, atol),
        references=references_of(reference),
        verify=verify,
        precision=precision_of(precision, keep_fp32, accumulate, io_precision, calibration),
        embed_plugins=embed_plugins,
        workspace_mib=workspace,
        timing_cache=path_of(timing_cache),
        optimization_level=optimization_level,
        layer_details=layer_details,
        timeout_s=timeout,
        verbose=verbose,
    )
    return pipeline.convert(options, progress or silent)


def verify(
    model: StrPath,
    engine: StrPath,
    *,
    inputs: StrPath | None = None,
    expected: StrPath | None = None,
    reference: References | None = None,
    shapes: Ranges | None = None,
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    precision: str = "",
    plugins: Paths = (),
    flavour: str = "auto",
    timeout: float | None = None,
    verbose: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """An engine's outputs, on this machine's GPU, against onnxruntime's on the original model, custom operators expanded.

    model:     the file from which the engine was built.
    engine:    the engine, with its manifest beside it.
    inputs:    an .npz file; None: inputs are made up for the smallest, usual and largest sizes of the engine's profile.
    expected:  an .npz file of outputs for `inputs`; None: what the original model gives in onnxruntime.
    reference: a function that computes the model, or functions by operator, as of `convert`.
    shapes:    of made-up inputs, by name: one shape, or three.
    rtol, atol: a tolerance for all outputs, or tolerances by the name of the output.
    precision: what the engine computes in, by which the default tolerance is found: "fp32", "tf32", "fp16", "fp16-sums"
        (its products are summed in float16, too), "bf16", "int8" or "fp8"; "": what its manifest says, and tf32 for fp32.
    plugins:   libraries that no manifest names. They run code of their own.
    flavour:   "tensorrt", "tensorrt_rtx", or "auto": that of the manifest.
    timeout:   of the engine's run, in seconds.
    verbose:   whether `progress` gets TensorRT's own messages too.
    progress:  gets a line of text for each thing that is begun or done.

    >>> import trtsmith
    >>> verdict = trtsmith.verify("model.onnx", "model.plan")  # doctest: +SKIP
    >>> verdict.passed, verdict.reason  # doctest: +SKIP
    (True, 'largest relative error 1.3e-07')

    Raises UsageError for an engine that cannot be run here, or is not of this model. That numbers disagree is a result and
    no error. `trtsmith locate` finds the node that is wrong.
    """
    options = VerifyOptions(
        model=Path(model),
        engine=Path(engine),
        inputs=path_of(inputs),
        expected=path_of(expected),
        shapes=parse_shapes(ranges_of(shapes, "x", "{}")),
        tolerances=tolerances_of(rtol, atol),
        references=references_of(reference),
        precision=precision,
        plugins=paths_of(plugins),
        flavour=flavour,
        timeout_s=timeout,
        verbose=verbose,
    )
    return verify_bundle(options, progress or silent).verdict


def load_report(path: StrPath) -> Report:
    """What --report of the commands check, convert and verify wrote, or the manifest of an engine.

    >>> import trtsmith
    >>> report = trtsmith.load_report("model.manifest.json")
    >>> report.kind, report.passed, report.verdict.status
    ('manifest', True, 'agree')
    >>> report.routes
    {'native': 1, 'plugin': 1}

    Raises UsageError for a file that is none of these.
    """
    return reports.load_report(Path(path))
