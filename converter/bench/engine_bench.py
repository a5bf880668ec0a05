"""Stage: times an engine, by layer, against baselines, and its plugins against native operators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.process.package_folders import PACKAGE_ROOT
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.bench import native_bench
from trtsmith.converter.bench.against import ExpectedOutputs, check_baselines, judge_of, time_baseline
from trtsmith.converter.bench.baseline_worker import BaselineRequest
from trtsmith.converter.bench.bench_record import FORMAT
from trtsmith.converter.bench.layers import parse_inspector, profile
from trtsmith.converter.bench.points import Point
from trtsmith.converter.bench.subject import (
    BenchOptions,
    BuildSource,
    Subject,
    check_options,
    given_engine,
    native_engine,
    open_source,
    plugin_engine,
    points_for,
)
from trtsmith.converter.bench.timed_engine import Timed, time_engine
from trtsmith.converter.bench.timing import remarks
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.runtime.exchange import write_arrays
from trtsmith.converter.plugin.bench.kernel_bench import LEAST_COUNT
from trtsmith.converter.plugin.machine import describe

PROFILED = 30
"""Inferences that are profiled by layer: medians of fewer say little."""


def bench(options: BenchOptions, progress: Progress) -> dict[str, Any]:
    """Makes the record (converter/bench/bench_record.py). Raises TrtsmithError if nothing can be timed."""
    check_options(options)
    check_baselines(options.against, options.torch, has_model=options.is_model)
    with ScratchFolder("bench") as name:
        folder = Path(name)
        if not options.is_model:
            subject = given_engine(options)
            points = points_for(options, subject.info, subject.run, None)
            return _document(options, subject, _time(options, subject, points, progress))
        source = open_source(options)
        if options.plugin_vs_native:
            return _both(options, source, folder, progress)
        subject = plugin_engine(options, source, folder, progress)
        points = points_for(options, subject.info, subject.run, source)
        timed = _time(options, subject, points, progress)
        judge = _judge(options, source, points[0], progress)
        baselines = _baselines(options, source, points[0], timed, judge, folder, progress)
        return _document(options, subject, timed) | {"against": baselines}


def _time(options: BenchOptions, subject: Subject, points: Sequence[Point], progress: Progress) -> Timed:
    layers = PROFILED if options.layers else 0
    return time_engine(subject.run, points, options.timing, layers, progress)


def _both(options: BenchOptions, source: BuildSource, folder: Path, progress: Progress) -> dict[str, Any]:
    """Both engines, or the native one and each plugin node alone. The record is about the plugin engine if there is one."""
    built: dict[str, Subject] = {}
    failed: dict[str, TrtsmithError] = {}
    for name, build in (("plugin", plugin_engine), ("native", native_engine)):
        progress(f"the model with {'plugins' if name == 'plugin' else 'standard operators only'}")
        try:
            built[name] = build(options, source, folder, progress)
        except TrtsmithError as error:
            failed[name] = error
    if not built:
        raise failed["plugin"]
    first = next(iter(built.values()))
    points = points_for(options, first.info, first.run, source)
    judge = _judge(options, source, points[0], progress)
    timed: dict[str, Timed] = {}
    sides: dict[str, dict[str, Any]] = {}
    for name in ("plugin", "native"):
        if name in built:
            try:
                timed[name] = _time(options, built[name], points, progress)
                sides[name] = native_bench.side(built[name], timed[name], judge)
            except TrtsmithError as error:
                failed[name] = error
        if name in failed:
            sides[name] = {"unavailable": failed[name].problems[0].what}
    if not timed:
        raise failed["plugin"]
    rows, without = None, None
    if "unavailable" in sides["plugin"]:
        count = max(LEAST_COUNT, options.timing.iterations)
        rows, without = native_bench.time_nodes(source, points[0].feeds, count, options.flavour, progress)
    main = next(iter(timed))
    document = _document(options, built[main], timed[main])
    baselines = _baselines(options, source, points[0], timed[main], judge, folder, progress)
    account = native_bench.account(sides["plugin"], sides["native"], rows, without)
    return document | {"against": baselines, "plugin_vs_native": account}


def _judge(options: BenchOptions, source: BuildSource, point: Point, progress: Progress) -> ExpectedOutputs:
    """What outputs may be; nothing is run for it where nothing is compared."""
    if not options.against and not options.plugin_vs_native:
        return ExpectedOutputs()
    return judge_of(source.original, {**point.feeds, **source.frozen}, progress)


def _baselines(
    options: BenchOptions,
    source: BuildSource,
    point: Point,
    timed: Timed,
    judge: ExpectedOutputs,
    folder: Path,
    progress: Progress,
) -> list[dict[str, Any]]:
    plain = timed.plain_run()
    if plain is None or not options.against:
        return []
    engine_ms = plain["response_ms"]["median"]
    inputs = folder / "baselines-inputs"
    write_arrays(inputs, {**point.feeds, **source.frozen})
    outputs = tuple(value.name for value in source.original.proto.graph.output)
    request = BaselineRequest(
        name="",
        model=options.target.resolve(),
        inputs=inputs,
        outputs=folder,
        outputs_are=outputs,
        timing=options.timing,
        torch=options.torch,
        path=(os.getcwd(),),
    )
    return [
        time_baseline(replace(request, name=name), engine_ms, timed.outputs, judge, folder, progress)
        for name in options.against
    ]


def _document(options: BenchOptions, subject: Subject, timed: Timed) -> dict[str, Any]:
    info = subject.info
    loaded = [path for path in subject.run.plugin_libraries if path.is_file()]
    layers = None
    if timed.layer_runs:
        layers = profile(timed.layer_runs, parse_inspector(timed.inspector), subject.nodes)
    runs = [run if "unavailable" in run else {**run, "remarks": remarks(run)} for run in timed.runs]
    outputs = [_output(name, array) for name, array in timed.outputs.items()]
    return {
        "format": FORMAT,
        "trtsmith": toolkit_version(),
        **describe(PACKAGE_ROOT, loaded, None),
        "clocks": timed.clocks,
        "engine": {
            "path": str(options.target),
            "bytes": subject.run.engine_path.stat().st_size,
            "flavour": info.flavour,
            "version": info.version,
            "device_memory": info.device_memory,
            "inputs": {spec.name: str(spec) for spec in info.inputs},
            "outputs": {spec.name: str(spec) for spec in info.outputs},
        },
        "runs": runs,
        "outputs": outputs,
        "layers": layers,
        "against": [],
        "plugin_vs_native": None,
        "warnings": [*timed.warnings, *filter(None, map(_nan_warning, outputs))],
    }


def _output(name: str, array: np.ndarray) -> dict[str, Any]:
    floating = array.dtype.kind in "fV"  # ml_dtypes are of kind V
    nan = int(np.count_nonzero(np.isnan(array.astype(np.float32)))) if floating else 0
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "elements": array.size,
        "nan": nan,
    }


def _nan_warning(output: Mapping[str, Any]) -> str:
    if not output["nan"]:
        return ""
    extent = (
        "throughout"
        if output["nan"] == output["elements"]
        else f"in {output['nan']} of {output['elements']} elements"
    )
    return (
        f"output {output['name']!r} is NaN {extent}: the times are those of a computation that went wrong; "
        "give real inputs with --inputs, or look into it with `trtsmith verify`"
    )
