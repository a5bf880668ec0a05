"""The public function `convert` and its options.

The examples are of a model.onnx that computes the Inverse of com.microsoft of the Neg of an input x of shape (n, 4, 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict, Unpack

from trtsmith import report_files
from trtsmith.arguments import (
    Example,
    ModelLike,
    model_of,
    output_of,
    path_of,
    precision_of,
    refusals_of,
    silent,
    stage_options,
    targets_of,
    tolerances_of,
    with_operators,
)
from trtsmith.converter.convert import pipeline
from trtsmith.converter.convert.conversion_options import MODES, ConvertOptions
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.convert.pipeline import Conversion
from trtsmith.converter.verify.references import references_of
from trtsmith.flags import cost
from trtsmith.model_options import (
    FLAVOUR,
    LEVEL,
    PLUGINS,
    PREFER_STOCK,
    TARGET,
    TIMEOUT,
    Compared,
    Freezing,
    Page,
    Precision,
    Refused,
    Shapes,
    Torch,
)
from trtsmith.options import (
    REFERENCE,
    Arrays,
    Flag,
    Operators,
    Paths,
    References,
    StrPath,
    Telling,
    Texts,
    with_defaults,
)


class EngineFile(TypedDict, total=False):
    output: Annotated[
        StrPath | None,
        Flag(
            "the engine to write; default: the model's name with .plan, in the current folder",
            "ENGINE",
            "-o",
            "--output",
        ),
    ]


class Engine(TypedDict, total=False):
    """the engine"""

    target: Annotated[Texts, TARGET]
    flavour: Annotated[str, FLAVOUR]
    prefer_stock: Annotated[bool, PREFER_STOCK]
    plugins: Annotated[Paths, PLUGINS]
    embed_plugins: Annotated[bool, Flag("store the plugin libraries in the engine file")]
    workspace: Annotated[int | None, Flag("limit of TensorRT's workspace in MiB", "MIB")]
    timing_cache: Annotated[
        StrPath | None, Flag("file with timings of earlier builds, read and updated", "FILE")
    ]
    optimization_level: Annotated[int | None, LEVEL]
    layer_details: bool
    timeout: Annotated[float | None, TIMEOUT]


class Expected(TypedDict, total=False):
    expected: Annotated[
        Arrays | None, Flag("expected outputs; default: those of the original model in onnxruntime", "NPZ")
    ]
    reference: Annotated[References | None, REFERENCE]


class Judged(Expected, Compared, total=False):
    """the verdict"""

    max_cost: Annotated[
        float | None,
        Flag(
            "how much int8 or fp8 may change any output, such as 0.05; more gives exit code 3",
            "X",
            type=cost,
        ),
    ]
    verify: Annotated[
        str | None,
        Flag(
            "what to compare with onnxruntime: the rewritten graph, the engine too, or (auto) the engine if it is "
            "built for this "
            "machine's GPU",
            default="auto",
            alone="verify",
            choices=MODES,
        ),
        Flag("compare nothing", "", "--no-verify", alone="verify", action="store_true"),
    ]


class ConversionOptions(
    Torch,
    EngineFile,
    Shapes,
    Freezing,
    Precision,
    Engine,
    Refused,
    Judged,
    Page,
    Operators,
    Telling,
    total=False,
):
    """The options of `trtsmith convert`."""


def conversion_of(model: GivenModel, output: Path | None, given: Any) -> ConvertOptions:
    judged = (given.rtol, given.atol, given.not_compared, given.compare, given.max_cost)
    return stage_options(
        ConvertOptions,
        ConversionOptions,
        given,
        model=model,
        output=output,
        targets=targets_of(given.target),
        tolerances=tolerances_of(*judged),
        references=references_of(given.reference),
        precision=precision_of(given),
        workspace_mib=given.workspace,
        timeout_s=given.timeout,
        refusals=refusals_of(given, output),
    )


@with_operators
def convert(
    model: ModelLike,
    args: Example = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[ConversionOptions],
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
    given = with_defaults(ConversionOptions, options)
    asked = conversion_of(model_of(model, args, kwargs, given), output_of(given.output, args), given)
    return report_files.conversion(
        report_files.WrittenFiles(path_of(given.html)),
        asked,
        lambda: pipeline.convert(asked, given.progress or silent),
    )
