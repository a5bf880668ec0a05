"""The functions of the public API. Each makes the options that the command of its name makes, and calls what it calls.

The examples are of a model.onnx that computes the Neg of an input x of shape (n, 4, 4), and of that com.microsoft::Inverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnx import ModelProto

from trtsmith import paged
from trtsmith.argument_types import checked_types
from trtsmith.arguments import (
    Arrays,
    Example,
    ModelLike,
    Paths,
    Progress,
    Ranges,
    References,
    Samples,
    StrPath,
    Texts,
    Tolerance,
    arrays_of,
    freeze_of,
    model_of,
    onnx_of,
    output_of,
    path_of,
    paths_of,
    precision_of,
    ranges_of,
    silent,
    targets_of,
    texts_of,
    tolerances_of,
    with_operators,
)
from trtsmith.converter.convert import pipeline, reports
from trtsmith.converter.convert.freezing import Freeze
from trtsmith.converter.convert.mending.refusals import REDUCE_S, refusals
from trtsmith.converter.convert.pipeline import Conversion, ConvertOptions
from trtsmith.converter.convert.reports import Report
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.shapes import parse_shapes
from trtsmith.converter.verify.references import references_of
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.converter.verify.verify_bundle import VerifyOptions, verify_bundle


@with_operators
def convert(
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
    shapes: Ranges | None = None,
    values: Ranges | None = None,
    freeze: Freeze = (),
    inputs: Arrays | None = None,
    expected: Arrays | None = None,
    reference: References | None = None,
    precision: str = "",
    keep_fp32: Texts = (),
    accumulate: str = "",
    float_lstm: bool = False,
    io_precision: bool = False,
    calibration: Samples = (),
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
    mend: bool = True,
    mend_with: Texts = (),
    reduce: bool = True,
    reduce_timeout: float = REDUCE_S,
    refused: StrPath | None = None,
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    not_compared: Texts = (),
    compare: Mapping[str, str] | None = None,
    max_cost: float | None = None,
    verify: str | None = "auto",
    html: StrPath | None = None,
    ops: Paths = (),
    plugins_from_packages: bool = True,
    verbose: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """A TensorRT engine of a model, with the plugin library that it needs and a manifest beside it, and the verdict on it.

    model:        the path of an .onnx file, an onnx.ModelProto or the bytes of one; of PyTorch a torch.nn.Module, a
        torch.export.ExportedProgram, the path of a saved one (.pt2), "package.module:function" or "FILE.py:function", which
        gives a module and its example. A .pt2 file and a function are loaded in a process of their own.
    args, kwargs: example arguments of a module. Its outputs for them are what the engine is compared with, and their sizes
        are the usual ones. The output's path may stand second, for a model file.
    output:       the engine's file; None: the engine is given back as bytes, and nothing is written.
    dynamic_shapes: of a module, as torch.export.export takes them; Dim(name, min=..., max=...) is the profile.
    custom_translation_table: as torch.onnx.export takes it.
    save_onnx:    a file for the ONNX model that a module becomes, for `verify` and `locate` later.
    export_timeout: of loading and exporting a .pt2 file or a function's module, in seconds; None: 600.
    data_folder:  that of the external data of a ModelProto or bytes.
    shapes:       of dynamic inputs, by name: one shape, or the smallest, usual and largest one; or texts as --shapes
        takes them, "images=1x3x64x64".
    values:       of integer inputs that decide shapes, by name: a number, a list of numbers, or three lists as for `shapes`;
        or texts such as "sizes=[1,1]:[2,3]:[8,8]".
    freeze:       inputs that become constants: by name an array, a number or a list; or texts such as "axes=[0,1]".
    inputs:       an .npz file, or arrays by name, to compare with; else a module's example, or generated ones. Axes and
        other inputs that TensorRT wants constant are frozen to what is there.
    expected:     an .npz file, or arrays by name, of outputs to compare with; None: a module's own, or what the original
        model gives in onnxruntime.
    reference:    a function (or "module:function") that computes the model from its inputs; or functions by operator, which
        compute the nodes of that operator, from inputs and attributes, in onnxruntime's place. numpy or PyTorch.
    precision:    "fp32", "fp16", "bf16", "int8" or "fp8", for the nodes that bear it; "": the types of the model.
    keep_fp32:    nodes to leave in float32: names, patterns such as "/head/*", operators.
    accumulate:   with "fp16" and TensorRT-RTX, which sums products of float16 in float16, what stays in float32 for that:
        "fp16" nothing, "fp32" nodes of more than 256 products, "auto" or "" those that the outputs need.
    float_lstm:   whether DynamicQuantizeLSTM is computed as an LSTM in float32: one fast layer, whose input and state are
        not rounded to 8 bits before each step, so that its numbers differ from onnxruntime's by what that changes.
    io_precision: whether inputs and outputs get the type of `precision` too.
    calibration:  .npz files of inputs for int8 and fp8, or arrays by name.
    target:       GPUs to build for, such as "sm86", "rtx3090" or "sm86,sm89"; (): the GPU that is there, else sm86.
    flavour:      "tensorrt", "tensorrt_rtx", or "auto": with a GPU tensorrt if it is there, else tensorrt_rtx.
    plugins:      plugin libraries of your own. They run code of their own.
    prefer_stock: whether nodes are left to the plugins that TensorRT itself brings, also where one of ours would do.
    embed_plugins: whether the plugin libraries go into the engine.
    workspace:    limit of TensorRT's workspace in MiB.
    timing_cache: a file, read and written, to build faster next time.
    optimization_level: of the builder, 0 to 5.
    layer_details: whether the engine can tell what each of its layers computes.
    timeout:      of the build, in seconds.
    mend:         whether nodes that TensorRT refuses are written in a way that it builds and that means the same, where one
        is known; `mended` of the result says which.
    mend_with:    mitigations that may change results, and are done all the same.
    reduce:       whether the nodes are looked for that TensorRT refuses, and reduce_timeout: for how many seconds. Without
        it nothing is mended.
    refused:      the file for these nodes as a model; None: beside the output.
    rtol, atol:   a tolerance for all outputs, or tolerances by the name of the output.
    not_compared: names of outputs that may be left out of the comparison, if they cannot be compared.
    compare:      by output, what it is compared as where its graph does not show it: "rows", "detections", "ranking",
        "classes", "set", or "values" for element by element.
    max_cost:     what int8 or fp8 may change of any output of the original; None: anything.
    verify:       what is compared with onnxruntime: "graph", "engine" as well, or "auto": the engine as well if this
        machine's GPU is one that it is built for; None: nothing.
    html:         a file for a page to look at: what was done and why, the network, errors; or the problems.
    ops:          definitions of operators of your own: a FILE.py, a folder or a dotted module with OPERATORS, which is
        imported and so runs. The environment variable TRTSMITH_OPS names more.
    plugins_from_packages: whether operators of installed packages count, which the entry points trtsmith.operators name.
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

    A model in memory, and an engine in memory:

    >>> import numpy as np, onnx
    >>> x = np.eye(4, dtype=np.float32)[None]
    >>> done = trtsmith.convert(onnx.load("model.onnx"), inputs={"x": x}, shapes={"x": (1, 4, 4)}, embed_plugins=True)
    >>> type(done.engine), done.bundle, done.passed
    (<class 'bytes'>, None, True)

    A PyTorch module; `trtsmith.load` makes a callable of the engine:

    >>> import torch
    >>> class Poses(torch.nn.Module):
    ...     def forward(self, x):
    ...         return {"inverse": torch.linalg.inv(x)}
    >>> batch = torch.export.Dim("batch", min=1, max=8)
    >>> example = (torch.eye(4).repeat(2, 1, 1),)
    >>> done = trtsmith.convert(Poses(), example, dynamic_shapes=({0: batch},), output="poses.plan")
    >>> done.verdict.status, [output.name for output in done.built.outputs]
    ('agree', ['inverse'])

    Raises ConversionError, with every problem at once, for a model that cannot be converted or built; InvalidModelError;
    UsageError. That numbers disagree is a result and no error.
    """
    options = ConvertOptions(
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
        shapes=parse_shapes(ranges_of(shapes, "x", "{}")),
        values=parse_values(ranges_of(values, ",", "[{}]")),
        freeze=freeze_of(freeze),
        targets=targets_of(target),
        flavour=flavour,
        plugins=paths_of(plugins),
        prefer_stock=prefer_stock,
        inputs=arrays_of(inputs, "inputs"),
        expected=arrays_of(expected, "expected"),
        tolerances=tolerances_of(rtol, atol, not_compared, compare, max_cost),
        references=references_of(reference),
        verify=verify,
        precision=precision_of(precision, keep_fp32, accumulate, float_lstm, io_precision, calibration),
        embed_plugins=embed_plugins,
        workspace_mib=workspace,
        timing_cache=path_of(timing_cache),
        optimization_level=optimization_level,
        layer_details=layer_details,
        timeout_s=timeout,
        verbose=verbose,
        refusals=refusals(
            output_of(output, args),
            path_of(refused),
            mend=mend,
            mend_with=texts_of(mend_with),
            reduce=reduce,
            reduce_timeout=reduce_timeout,
        ),
        keep=True,
    )
    return paged.conversion(html, options, lambda: pipeline.convert(options, progress or silent))


@with_operators
def verify(
    model: StrPath | bytes | ModelProto,
    engine: StrPath,
    *,
    data_folder: StrPath | None = None,
    inputs: Arrays | None = None,
    expected: Arrays | None = None,
    reference: References | None = None,
    load_inputs: Paths = (),
    load_outputs: StrPath | None = None,
    save_inputs: StrPath | None = None,
    save_outputs: StrPath | None = None,
    shapes: Ranges | None = None,
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    not_compared: Texts = (),
    compare: Mapping[str, str] | None = None,
    precision: str = "",
    plugins: Paths = (),
    flavour: str = "auto",
    timeout: float | None = None,
    html: StrPath | None = None,
    ops: Paths = (),
    plugins_from_packages: bool = True,
    verbose: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """An engine's outputs, on this machine's GPU, against onnxruntime's on the original model, custom operators expanded.

    model:     the ONNX model from which the engine was built: a path, an onnx.ModelProto or the bytes of one.
    data_folder: that of the external data of a ModelProto or bytes.
    engine:    the engine, with its manifest beside it.
    inputs:    an .npz file, or arrays by name; None: inputs are made up for the smallest, usual and largest sizes of the
        engine's profile.
    expected:  an .npz file, or arrays by name, of outputs for `inputs`; None: what the original model gives in onnxruntime.
    reference: a function that computes the model, or functions by operator, as of `convert`.
    load_inputs, load_outputs: the same as `polygraphy run --save-inputs` and `--save-outputs` write them: JSON files, or
        folders of one file an iteration; the outputs of one runner.
    save_inputs, save_outputs: files, or folders if there is no suffix, for the inputs and the engine's outputs in that form.
    shapes:    of made-up inputs, by name: one shape, or three.
    rtol, atol: a tolerance for all outputs, or tolerances by the name of the output.
    not_compared: names of outputs that may be left out of the comparison, if they cannot be compared.
    compare:      by output, what it is compared as where its graph does not show it: "rows", "detections", "ranking",
        "classes", "set", or "values" for element by element.
    precision: what the engine computes in, by which the default tolerance is found: "fp32", "tf32", "fp16", "fp16-sums"
        (its products are summed in float16, too), "bf16", "int8" or "fp8"; "": what its manifest says, and tf32 for fp32.
    plugins:   libraries that no manifest names. They run code of their own.
    flavour:   "tensorrt", "tensorrt_rtx", or "auto": that of the manifest.
    timeout:   of the engine's run, in seconds.
    html:      a file for a page with the verdict and the network.
    ops, plugins_from_packages: as in `convert`.
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
        model=onnx_of(model, data_folder),
        engine=Path(engine),
        inputs=arrays_of(inputs, "inputs"),
        expected=arrays_of(expected, "expected"),
        load_inputs=paths_of(load_inputs),
        load_outputs=path_of(load_outputs),
        save_inputs=path_of(save_inputs),
        save_outputs=path_of(save_outputs),
        shapes=parse_shapes(ranges_of(shapes, "x", "{}")),
        tolerances=tolerances_of(rtol, atol, not_compared, compare),
        references=references_of(reference),
        precision=precision,
        plugins=paths_of(plugins),
        flavour=flavour,
        timeout_s=timeout,
        verbose=verbose,
    )
    return paged.verdict(html, options, lambda: verify_bundle(options, progress or silent))


@checked_types
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
