"""Defines the public function `convert` and its options.

The examples are of a model.onnx that computes the Inverse of com.microsoft of the Neg of an input x of shape (n, 4, 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

from typing_extensions import TypedDict, Unpack

from trtsmith import report_files
from trtsmith.argument_words import naming_keys
from trtsmith.arguments import (
    Example,
    ModelLike,
    logged,
    model_of,
    output_of,
    stage_options,
    with_operators,
)
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import options_of, with_defaults
from trtsmith.converter.base.options.kinds import (
    Flag,
    StrPath,
    VerifyMode,
    path_of,
)
from trtsmith.converter.convert import pipeline
from trtsmith.converter.convert.conversion import Conversion
from trtsmith.converter.convert.conversion_options import (
    ConvertOptions,
    DeviceOptions,
    FormOptions,
    PluginOptions,
)
from trtsmith.converter.convert.freezing import FreezingOptions
from trtsmith.converter.convert.opening import GivenModel
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.convert.recipe import Choices, Recipe, load_recipe
from trtsmith.converter.convert.workarounds.refusals import Refusals
from trtsmith.converter.engine.builder.build_request import BuilderOptions
from trtsmith.converter.engine.builder.deployment import DEPLOYED, settings_of
from trtsmith.converter.verify.references import ExpectationOptions
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.options import (
    Operators,
    Page,
    Shapes,
    Telling,
    Torch,
)


class EngineFile(TypedDict, total=False):
    """output"""

    output: Annotated[
        StrPath | None,
        Flag(
            "the engine to write; default: MODEL's name with .plan, in this folder",
            "ENGINE",
            "-o",
            "--output",
            common=True,
        ),
    ]


class Compared(TypedDict, total=False):
    """verdict"""

    verify: Annotated[
        VerifyMode | None,
        Flag(
            "what to compare with onnxruntime: the rewritten graph, the engine too, or (auto) the engine if it is "
            "built for this "
            "machine's GPU",
            default="auto",
            alone="verify",
        ),
        Flag("compare nothing", "", "--no-verify", alone="verify", action="store_true"),
    ]


class RecipeFile(TypedDict, total=False):
    """precision"""

    recipe: Annotated[
        StrPath | None,
        Flag(
            "what `trtsmith tune` found: precision, nodes in float32 and other choices come from this file",
            "JSON",
        ),
    ]


CONVERSION = (
    *(Torch, Shapes, FreezingOptions, PrecisionRequest, RecipeFile, BuilderOptions, PluginOptions),
    *(FormOptions, DeviceOptions),
    *(DEPLOYED, Refusals, ExpectationOptions, Tolerances, Compared, EngineFile, Page, Operators, Telling),
)
"""The options of `trtsmith convert`."""


def conversion_of(model: GivenModel, output: Path | None, given: Any) -> ConvertOptions:
    """UsageError for options of which the recipe has values, too."""
    given, recipe = with_choices(given)
    with naming_recipe(given):
        return stage_options(
            ConvertOptions,
            CONVERSION,
            given,
            model=model,
            output=output,
            tolerances=stage_options(Tolerances, CONVERSION, given),
            precision=stage_options(PrecisionRequest, CONVERSION, given),
            settings=settings_of(given),
            refusals=stage_options(Refusals, CONVERSION, given).beside(output),
            recipe=recipe,
        )


def naming_recipe(given: Any) -> AbstractContextManager[None]:
    """In the block, errors on choices of the recipe among the options name its keys."""
    keys = {field.name for field in fields(Choices)}
    return naming_keys(given.recipe, {o.name: o.kind for o in options_of(CONVERSION) if o.name in keys})


def with_choices(given: Any) -> tuple[Any, Recipe | None]:
    """Returns the options with the recipe's choices among them, and the recipe, if they name one."""
    if given.recipe is None:
        return given, None
    recipe = load_recipe(Path(given.recipe))
    chosen = vars(recipe.choices)
    twice = [name for name in chosen if getattr(given, name) not in (None, (), [], "", False)]
    if twice:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in twice)
        what, expected = f"{flags} beside a recipe, which chooses that", "the recipe alone"
        fix = "leave the flags out, or change the file"
        raise UsageError(what, f"--recipe {given.recipe}", expected, fix)
    return SimpleNamespace(**vars(given) | chosen), recipe


@with_operators(CONVERSION)
def convert(
    model: ModelLike,
    args: Example = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[keywords.ConvertKeywords],
) -> Conversion:
    """Converts a model into a TensorRT engine with its plugin library and a manifest, and compares the results.

    model:        the path of an .onnx file, an onnx.ModelProto or its bytes; or from PyTorch a torch.nn.Module, a
        torch.export.ExportedProgram, the path of a saved one (.pt2), or "package.module:function" or "FILE.py:function" of a
        function that returns a module and its example. A .pt2 file and a function are loaded in a child process.
    args, kwargs: example arguments of a module. The engine is compared with the module's outputs for them, and their sizes
        are the usual ones. For a model file, the output path may stand second.
    output:       the engine's file; None: return the engine as bytes and write nothing.
    dynamic_shapes: for a module, as in torch.export.export; Dim(name, min=..., max=...) gives the profile.
    custom_translation_table: as in torch.onnx.export.
    save_onnx:    a file for the exported ONNX model, for `verify` and `locate`.
    export_timeout: time limit for loading and exporting a .pt2 file or a function's module, in seconds; None: 600.
    data_folder:  folder of the external data of a ModelProto or bytes.
    shapes:       of dynamic inputs, by name: one shape, or the smallest, usual and largest one; or texts as --shapes
        takes them, "images=1x3x64x64". A list of such dicts: several optimization profiles.
    values:       of integer inputs that decide shapes, by name: a number, a list of numbers, or three lists as for `shapes`;
        or texts such as "sizes=[1,1]:[2,3]:[8,8]".
    freeze:       inputs that become constants: by name an array, a number or a list; or texts such as "axes=[0,1]".
    inputs:       an .npz file, or arrays by name, for the comparison; default: a module's example, or generated inputs.
        Inputs that TensorRT needs constant, such as axes, are frozen to these values.
    expected:     an .npz file, or arrays by name, with the expected outputs for `inputs`, or for a module's example; None:
        the module's own, or those of the original model in onnxruntime.
    reference:    a function (or "module:function") that computes the model from its inputs; or functions by operator, which
        compute that operator's nodes, from inputs and attributes, instead of onnxruntime. In numpy or PyTorch.
    precision:    "fp32", "fp16", "bf16", "int8" or "fp8", for layers whose accuracy allows it; "int8+fp16" and others:
        8 bits where it is calibrated, and 16 elsewhere; "": the model's types.
    keep_fp32:    nodes to keep in float32: names, patterns such as "/head/*", operators.
    keep_only:    whether no other node is kept in float32 for the sake of accuracy.
    recipe:       a file of `trtsmith.tune`, from which precision, nodes in float32 and other choices come.
    accumulate:   for "fp16" with TensorRT-RTX, which sums float16 products in float16: the sums to keep in float32.
        "fp16" none, "fp32" those of more than 256 products, "auto" or "" as many as the outputs' accuracy needs.
    float_lstm:   whether to compute DynamicQuantizeLSTM as a float32 LSTM: one fast layer that does not round its input
        and state to 8 bits. The missing rounding changes the results.
    io_precision: whether inputs and outputs get the type of `precision` too.
    calibration:  .npz files of samples for int8 and fp8, or arrays by name.
    target:       GPUs to build for, such as "sm86", "rtx3090" or "sm86,sm89"; (): this machine's GPU, else sm86.
    flavour:      "tensorrt", "tensorrt_rtx", or "auto": tensorrt if it is installed and there is a GPU, else tensorrt_rtx.
    plugins:      your own plugin libraries. They run code of their own.
    as_is:        whether the nodes stay as they are: TensorRT's own import, to compare with; without plugins.
    prefer_stock: whether to use TensorRT's own plugins, even for nodes that trtsmith has a plugin for.
    embed_plugins: whether to store the plugin libraries in the engine file.
    workspace:    limit of TensorRT's workspace in MiB.
    timing_cache: a file with timings of earlier builds, read and updated.
    optimization_level: of the builder, 0 to 5.
    layer_details: whether the engine keeps a description of each layer.
    version_compatible, hardware_compatibility_level, strip_plan, refit, weight_streaming, tactic_sources,
        memory_pool_limit, use_dla_core, sparsity, strongly_typed: of the builder; docs/guides/deploy.md has them by flag.
    bundle_for:   "orin", "thor" or "spark": build nothing, and write a folder, `output`, from which that device builds the
        engine with its trtexec, runs it and compares. plugins_aarch64: a wheel of trtsmith for aarch64, for its libraries.
    timeout:      time limit of the build, in seconds.
    mend:         whether to apply known, exact workarounds to nodes that TensorRT refuses; see `mended` of the result.
    mend_with:    workarounds to apply although they may change results.
    reduce:       whether to search for the nodes that TensorRT refuses, and reduce_timeout: time limit of the search in
        seconds. Without the search, no workaround is applied.
    refused:      the file for these nodes as a model; None: beside the output.
    rtol, atol:   a tolerance for all outputs, or tolerances by output name.
    not_compared: names of outputs that may stay uncompared, if they cannot be compared.
    compare:      by output, how to compare it if the graph does not show it: "rows", "detections", "ranking", "classes",
        "set", or "values" for element by element.
    max_cost:     how much int8 or fp8 may change any output; None: no limit.
    verify:       what to compare with onnxruntime: "graph"; "engine" as well; "auto": the engine as well if it is built for
        this machine's GPU; None: nothing.
    force:        whether existing files are replaced, whatever they are. Without it, an engine is replaced only by one of
        the same model, and any other file only if `convert` wrote it there.
    html:         a file for an HTML report: changes and their reasons, the network, errors; or the problems.
    ops:          definitions of your own operators: a FILE.py, a folder or a dotted module with OPERATORS. Its code is
        imported and run. The environment variable TRTSMITH_OPS names more.
    plugins_from_packages: whether to load operators of installed packages (entry points trtsmith.operators).
    verbose:      whether `progress` gets TensorRT's own messages too.
    progress:     a function that gets a line of text for each step.

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

    Raises ConversionError with all problems for a model that cannot be converted or built; InvalidModelError; UsageError. If
    outputs disagree, the result says so; nothing is raised.
    """
    given = with_defaults(CONVERSION, options)
    asked = conversion_of(model_of(model, args, kwargs, given), output_of(given.output, args), given)
    files = report_files.WrittenFiles(path_of(given.html), force=given.force)
    with report_files.converting(files, asked), naming_recipe(given):
        done = pipeline.convert(asked, logged(given.progress))
    report_files.write_conversion(files, asked, done)
    return done
