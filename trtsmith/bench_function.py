"""The public function `bench` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict, Unpack

from trtsmith import report_files
from trtsmith.arguments import logged, stage_options, with_operators
from trtsmith.converter.bench.baseline_worker import BASELINES
from trtsmith.converter.bench.engine_bench import bench as timed
from trtsmith.converter.bench.points import check_points
from trtsmith.converter.bench.subject import BenchOptions
from trtsmith.converter.bench.timed_engine import TimingOptions, graphs_of
from trtsmith.converter.model.options.declared import Flag, with_defaults
from trtsmith.converter.model.options.kinds import (
    DURATION,
    NUMBER,
    WORDS,
    Arrays,
    CudaGraphMode,
    Ranges,
    StrPath,
    Texts,
    path_of,
    texts_of,
)
from trtsmith.model_options import Page, Running
from trtsmith.options import Operators, Telling


class Inputs(TypedDict, total=False):
    """inputs"""

    shapes: Annotated[
        Ranges | None,
        Flag(
            "for an engine: the shape to time at, such as images=1x3x640x640; for a model: the profile, as for `convert`",
            "NAME=SHAPE",
            common=True,
        ),
    ]
    at: Annotated[
        Texts,
        Flag(
            "points of the profile to time at: min, opt, max (opt)",
            "POINT,...",
            default=("opt",),
            common=True,
            kind=WORDS,
        ),
    ]
    inputs: Annotated[
        Arrays | None, Flag("inputs by name; default: generated random numbers", "NPZ", common=True)
    ]
    freeze: Annotated[Texts, Flag("for a model: as for `convert`", "NAME=VALUE")]


class Timing(TypedDict, total=False):
    """timing"""

    warmup_ms: Annotated[float, Flag("time before the measurement (200)", "MS", default=200.0, kind=DURATION)]
    duration_s: Annotated[float, Flag("length of each run (3)", "S", default=3.0, kind=DURATION)]
    iterations: Annotated[int, Flag("minimum number of inferences (10)", "N", default=10)]
    streams: Annotated[int, Flag("number of parallel contexts (1)", "N", default=1, common=True)]
    transfers: Annotated[
        bool,
        Flag(
            "keep inputs and outputs on the GPU, without copies",
            "",
            "--no-transfers",
            default=True,
            action="store_false",
        ),
    ]
    cuda_graph: Annotated[
        CudaGraphMode,
        Flag("time with a CUDA graph, without one, or both (both)", default="both"),
    ]
    layers: Annotated[
        int,
        Flag(
            "show the N slowest layers, and the shares of operators and plugins; 0: no profile (10)",
            "N",
            default=10,
            common=True,
            kind=NUMBER,
        ),
    ]


class Comparison(TypedDict, total=False):
    """comparison, for a model"""

    against: Annotated[
        Texts,
        Flag(
            "; ".join(f"{name}: {text}" for name, text in BASELINES.items()),
            "NAME,...",
            common=True,
            kind=WORDS,
        ),
    ]
    torch: Annotated[
        str,
        Flag(
            "function that takes the inputs by name as tensors, and returns a callable without arguments that returns "
            "the outputs",
            "MODULE:FUNCTION",
        ),
    ]
    plugin_vs_native: Annotated[
        bool,
        Flag("time the model with plugins, and with their expansions into standard operators"),
    ]


class TimedEngine(Running, total=False):
    """engine"""


class TimedOptions(Inputs, Timing, Comparison, TimedEngine, Page, Operators, Telling, total=False):
    """The options of `trtsmith bench`."""


def timing_of(target: Path, given: Any) -> BenchOptions:
    timing = stage_options(
        TimingOptions, TimedOptions, given, warmup_s=given.warmup_ms / 1e3, graphs=graphs_of(given.cuda_graph)
    )
    return stage_options(
        BenchOptions,
        TimedOptions,
        given,
        target=target,
        at=check_points(texts_of(given.at)),
        timing=timing,
        layers=max(given.layers, 0),
        timeout_s=given.timeout,
    )


@with_operators(TimedOptions)
def bench(target: StrPath, **options: Unpack[TimedOptions]) -> dict[str, Any]:
    """Times an engine on this machine's GPU, in trtexec's terms, by layer and against other runtimes.

    target:    an engine; or an .onnx file, which is built first.
    shapes:    for an engine, the shape to time at; for a model, the profile, as for `convert`.
    at:        points of the profile: "min", "opt", "max".
    inputs:    an .npz file, or arrays by name; None: generated.
    freeze:    for a model, as for `convert`.
    warmup_ms: time before the measurement. duration_s: length of each run. iterations: minimum number of inferences.
    streams:   number of parallel contexts. transfers: whether inputs and outputs are copied from and to the host.
    cuda_graph: "on": a run with a CUDA graph; "off": one without; "both".
    layers:    how many of the slowest layers; 0: no profile by layer.
    against:   names of other runtimes, for a model. torch: "module:function" of a PyTorch model, as for the command.
    plugin_vs_native: time the model with plugins, and with their expansions into standard operators.
    timeout:   time limit of the build, and of each engine's timing, in seconds.
    html:      a file for a page with the times, by layer and, for a model, by node.

    Other arguments are those of `convert`. converter/bench/bench_record.py describes the record.

    >>> import trtsmith
    >>> record = trtsmith.bench("model.plan")  # doctest: +SKIP
    >>> record["runs"][0]["gpu_ms"]["median"]  # doctest: +SKIP
    0.0131

    Raises UsageError: no GPU, options that contradict each other; ConversionError for a model that cannot be built.
    """
    given = with_defaults(TimedOptions, options)
    asked = timing_of(Path(target), given)
    return report_files.timing(
        report_files.WrittenFiles(path_of(given.html), force=given.force),
        asked,
        lambda: timed(asked, logged(given.progress)),
    )
