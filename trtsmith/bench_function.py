"""Defines the public function `bench` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from trtsmith import report_files
from trtsmith.arguments import logged, stage_options, with_operators
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import only, with_defaults
from trtsmith.converter.base.options.kinds import (
    StrPath,
    path_of,
)
from trtsmith.converter.bench.engine_bench import bench as timed
from trtsmith.converter.bench.subject import BaselineOptions, BenchInputs, BenchOptions
from trtsmith.converter.bench.timed_engine import TimingOptions
from trtsmith.converter.engine.runtime.run_request import RunningOptions
from trtsmith.options import Operators, Page, Telling

TIMED = (
    BenchInputs,
    TimingOptions,
    only(BenchOptions, "timing", "layers"),
    BaselineOptions,
    RunningOptions,
    Page,
    Operators,
    Telling,
)
"""The options of `trtsmith bench`."""


def timing_of(target: Path, given: Any) -> BenchOptions:
    return stage_options(
        BenchOptions, TIMED, given, target=target, timing=stage_options(TimingOptions, TIMED, given)
    )


@with_operators(TIMED)
def bench(target: StrPath, **options: Unpack[keywords.BenchKeywords]) -> dict[str, Any]:
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
    given = with_defaults(TIMED, options)
    asked = timing_of(Path(target), given)
    files = report_files.WrittenFiles(path_of(given.html), force=given.force)
    report_files.check_timing(files, asked)
    record = timed(asked, logged(given.progress))
    report_files.write_timing(files, asked, record)
    return record
