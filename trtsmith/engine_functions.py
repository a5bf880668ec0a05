"""The functions of the public API that are about engines and operators. Each makes the options of the command of its name.

The examples are of what those of trtsmith.api leave: a model.onnx and its model.plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from trtsmith import paged
from trtsmith.argument_types import checked_types
from trtsmith.arguments import (
    Arrays,
    Paths,
    Progress,
    Ranges,
    Samples,
    StrPath,
    Texts,
    Tolerance,
    arrays_of,
    feeds_of,
    freeze_of,
    onnx_of,
    path_of,
    paths_of,
    precision_of,
    ranges_of,
    silent,
    texts_of,
    tolerances_of,
    with_operators,
)
from trtsmith.converter.bench.bench_request import TimingOptions, graphs_of
from trtsmith.converter.bench.engine_bench import bench as timed
from trtsmith.converter.bench.points import check_points
from trtsmith.converter.bench.subject import BenchOptions
from trtsmith.converter.convert.freezing import Freeze
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.bundle.triton import TritonModel, write_model
from trtsmith.converter.engine.bundle.triton_config import TritonOptions
from trtsmith.converter.engine.runtime.run_in_child import run_engine
from trtsmith.converter.engine.runtime.run_request import EAGER
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.prepare import Asked, locate_asked
from trtsmith.converter.locate.searched_graph import MEMORY
from trtsmith.converter.model.shape_tensors import parse_values
from trtsmith.converter.model.shapes import parse_shapes
from trtsmith.converter.plugin.cases import contract_cases, gpu_cases
from trtsmith.converter.plugin.contract import ContractCase, LibraryReport
from trtsmith.converter.plugin.test import test_library
from trtsmith.importers import registry
from trtsmith.importers.opdef import OpDef


@with_operators
def locate(
    model: StrPath | bytes | ModelProto,
    engine: StrPath | None = None,
    *,
    output: StrPath | None = None,
    data_folder: StrPath | None = None,
    on: str = "auto",
    native: bool = False,
    all: bool = False,
    memory: int = MEMORY >> 20,
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
    rtol: Tolerance | None = None,
    atol: Tolerance | None = None,
    plugins: Paths = (),
    flavour: str = "auto",
    timeout: float | None = None,
    html: StrPath | None = None,
    ops: Paths = (),
    plugins_from_packages: bool = True,
    progress: Progress | None = None,
) -> Located:
    """The node that makes an engine's numbers differ from onnxruntime's.

    model:   the ONNX model: a path, an onnx.ModelProto or the bytes of one.
    engine:  an engine of it; None: one that is built now.
    output:  a folder in which the node is saved with its tensors, as a model of its own; None: nowhere.
    data_folder: that of the external data of a ModelProto or bytes.
    on:      "tensorrt"; "kernels": plugin nodes through the plugin host, the others in onnxruntime; "auto": tensorrt where
        it is there.
    native:  build plugin nodes as standard operators, without the plugins.
    all:     go on after the first node that is wrong.
    memory:  of values between nodes at a time, in MiB.
    timeout: for each build and each run, in seconds.
    html:    a file for a page with the network and the errors of its values.

    Other arguments are those of `convert`.

    >>> import trtsmith
    >>> found = trtsmith.locate("model.onnx", shapes={"x": (2, 4, 4)})  # doctest: +SKIP
    >>> found.status, found.nodes  # doctest: +SKIP
    ('agree', ())

    Raises ConversionError, InvalidModelError, and UsageError: no GPU for what was asked for.
    """
    options = Asked(
        model=onnx_of(model, data_folder),
        engine=path_of(engine),
        inputs=arrays_of(inputs, "inputs"),
        freeze=freeze_of(freeze),
        shapes=parse_shapes(ranges_of(shapes, "x", "{}")),
        values=parse_values(ranges_of(values, ",", "[{}]")),
        plugins=paths_of(plugins),
        flavour=flavour,
        on=on,
        native=native,
        timeout_s=timeout,
        precision=precision_of(precision, keep_fp32, accumulate, float_lstm, io_precision, calibration),
    )
    told = tolerances_of(rtol, atol)
    return paged.search(
        html,
        options,
        lambda ready_for: locate_asked(
            options,
            path_of(output),
            told,
            progress or silent,
            memory=memory << 20,
            everything=all,
            ready_for=ready_for,
        ),
    )


@with_operators
def bench(
    target: StrPath,
    *,
    shapes: Ranges | None = None,
    at: Texts = ("opt",),
    inputs: Arrays | None = None,
    freeze: Texts = (),
    warmup_ms: float = 200.0,
    duration_s: float = 3.0,
    iterations: int = 10,
    streams: int = 1,
    transfers: bool = True,
    cuda_graph: str = "both",
    layers: int = 10,
    against: Texts = (),
    torch: str = "",
    plugin_vs_native: bool = False,
    plugins: Paths = (),
    flavour: str = "auto",
    timeout: float | None = None,
    html: StrPath | None = None,
    ops: Paths = (),
    plugins_from_packages: bool = True,
    verbose: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The times of an engine on this machine's GPU, in trtexec's terms; by layer, and against other runtimes.

    target:    an engine; or a file whose name ends in .onnx, which is built first.
    shapes:    of an engine, the shape to time at; of a model, the profile, as for `convert`.
    at:        points of the profile: "min", "opt", "max".
    inputs:    an .npz file, or arrays by name; None: generated.
    freeze:    of a model, as for `convert`.
    warmup_ms: not counted. duration_s: of each run. iterations: at least so many inferences.
    streams:   contexts at the same time. transfers: whether inputs and outputs are copied from and to the host.
    cuda_graph: "on": a run with a CUDA graph; "off": one without; "both".
    layers:    how many of the slowest layers; 0: no profile by layer.
    against:   names of other runtimes, of a model. torch: "module:function" of a PyTorch model, as the command takes it.
    plugin_vs_native: build the model with plugins and without, and time both.
    timeout:   for the build, and for each engine's timing, in seconds.
    html:      a file for a page with the times, by layer and, of a model, by node.

    Other arguments are those of `convert`. The record is described in converter/bench/bench_record.py.

    >>> import trtsmith
    >>> record = trtsmith.bench("model.plan")  # doctest: +SKIP
    >>> record["runs"][0]["gpu_ms"]["median"]  # doctest: +SKIP
    0.0131

    Raises UsageError: no GPU, options that contradict each other; ConversionError for a model that cannot be built.
    """
    options = BenchOptions(
        target=Path(target),
        shapes=parse_shapes(ranges_of(shapes, "x", "{}")),
        at=check_points(texts_of(at)),
        inputs=arrays_of(inputs, "inputs"),
        freeze=texts_of(freeze),
        timing=TimingOptions(
            warmup_ms / 1e3, duration_s, iterations, streams, transfers, graphs_of(cuda_graph)
        ),
        layers=max(layers, 0),
        against=texts_of(against),
        torch=torch,
        plugin_vs_native=plugin_vs_native,
        plugins=paths_of(plugins),
        flavour=flavour,
        timeout_s=timeout,
        verbose=verbose,
    )
    return paged.timing(html, options, lambda: timed(options, progress or silent))


def run(
    engine: StrPath,
    inputs: Arrays,
    *,
    plugins: Paths = (),
    flavour: str = "auto",
    embedded_plugins: bool = False,
    profile: int = 0,
    runtime_cache: StrPath | None = None,
    specialization: str = EAGER,
    cuda_graph: bool = False,
    timeout: float | None = None,
    verbose: bool = False,
    progress: Progress | None = None,
) -> dict[str, np.ndarray]:
    """An engine's outputs by name. It runs in a process of its own: a fault in a kernel ends that one only.

    engine:    its file, with the manifest beside it.
    inputs:    an .npz file, or arrays by name, in the model's types.
    embedded_plugins: load the libraries inside the engine although no manifest speaks of them; they run code of their own.
    profile:   the optimization profile.
    runtime_cache: TensorRT-RTX: a file for the kernels that it compiles, or a folder for one file for each engine.
    specialization: TensorRT-RTX: when kernels for new shapes are compiled: "eager", "lazy" or "none".
    cuda_graph: whether the engine runs as a CUDA graph.
    timeout:   of the run, in seconds.

    Other arguments are those of `convert`. `trtsmith.Runner` and `trtsmith.load` run engines in this process, many times.

    >>> import trtsmith
    >>> outputs = trtsmith.run("model.plan", {"x": x})  # doctest: +SKIP
    >>> outputs["y"].shape  # doctest: +SKIP
    (2, 4, 4)

    Raises UsageError for an engine that cannot be run here, and for inputs that do not fit it.
    """
    request = request_for(
        Path(engine),
        paths_of(plugins),
        flavour,
        runtime_cache=path_of(runtime_cache),
        cuda_graph=cuda_graph,
        specialization=specialization,
        profile=profile,
        embedded_plugins=embedded_plugins,
        verbose=verbose,
        timeout_s=timeout,
    )
    return run_engine(request, [feeds_of(inputs)], progress or silent).outputs[0]


@checked_types
def bundle(
    engine: StrPath,
    triton: StrPath,
    *,
    name: str | None = None,
    model_version: int = 1,
    batching: bool | None = None,
    instances: int = 1,
    queue_delay_us: int = 100,
) -> TritonModel:
    """Puts an engine that `convert` wrote into a model repository of Triton Inference Server.

    engine:   its file, with the manifest beside it; of TensorRT, with its plugins embedded.
    triton:   the repository, made if it is not there.
    name:     the model's; None: the engine's file name.
    batching: whether the server joins requests along the first dimension; None: where all have a dynamic one.
    instances: execution contexts on each GPU. queue_delay_us: how long a request waits for others, in microseconds.

    >>> import trtsmith
    >>> trtsmith.bundle("model.plan", "models")  # doctest: +SKIP
    TritonModel(folder=PosixPath('models/model'), ...)

    Raises UsageError for an engine that Triton cannot serve.
    """
    path = Path(engine)
    options = TritonOptions(
        Path(triton), path.stem if name is None else name, model_version, batching, instances, queue_delay_us
    )
    return write_model(path, options)


@with_operators
def check_plugin(
    library: StrPath,
    *,
    gpu: bool | None = None,
    cases: Sequence[ContractCase] = (),
    timeout: float = 120.0,
    ops: Paths = (),
    plugins_from_packages: bool = True,
    progress: Progress | None = None,
) -> LibraryReport:
    """Holds every plugin of any TensorRT plugin library to TensorRT's contract, without TensorRT. Runs the library's code.

    library: the shared library, of IPluginV3 or IPluginV2 plugins.
    gpu:     whether kernels are run; None: where there is a GPU.
    cases:   of plugins that no operator definition is about (trtsmith.converter.plugin.contract.ContractCase).
    timeout: of one check, in seconds.

    Other arguments are those of `convert`. `ok` of the result says whether nothing failed, and `render()` is the report.

    >>> import trtsmith
    >>> report = trtsmith.check_plugin("libtrtsmith_plugins.so", gpu=False)  # doctest: +SKIP
    >>> report.ok  # doctest: +SKIP
    True

    Raises UsageError for a library that does not load, and where a GPU is asked for that is not there.
    """
    tell = progress or silent
    return test_library(
        Path(library),
        gpu=gpu,
        definitions=(*contract_cases(), *cases),
        gpu_cases=gpu_cases,
        timeout_s=timeout,
        progress=lambda result: tell(f"{result.verdict.value}: {result.creator}: {result.check}"),
    )


@with_operators
def operators(*, ops: Paths = (), plugins_from_packages: bool = True) -> tuple[OpDef, ...]:
    """The operators that trtsmith knows: its own, and those of the packages that `ops` and installed packages name.

    >>> import trtsmith
    >>> "torchvision" in {domain for op in trtsmith.operators() for alias in op.aliases for domain in alias.domains}
    True
    """
    return registry.operators()
