"""Defines the public function `run` and its options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typing_extensions import TypedDict, Unpack

from trtsmith.argument_types import checked_types
from trtsmith.arguments import feeds_of, logged
from trtsmith.converter.base.options import keywords
from trtsmith.converter.base.options.declared import with_defaults
from trtsmith.converter.base.options.kinds import (
    NUMBER,
    Arrays,
    Flag,
    SpecializationMode,
    StrPath,
    path_of,
    paths_of,
)
from trtsmith.converter.base.output_file import check_report
from trtsmith.converter.base.own_files import CACHE
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.runtime.run_in_child import run_engine
from trtsmith.converter.engine.runtime.run_request import EAGER, RunningOptions, RunRequest
from trtsmith.options import Replacing, Telling


class RunForm(TypedDict, total=False):
    embedded_plugins: Annotated[
        bool,
        Flag(
            "load the engine's embedded plugin libraries even without a manifest; they run code of their own"
        ),
    ]
    profile: Annotated[int, Flag("the optimization profile to run with (0)", "N", default=0, kind=NUMBER)]
    runtime_cache: Annotated[
        StrPath | None,
        Flag(
            "TensorRT-RTX: file for compiled kernels; in a folder, a file for each engine and GPU",
            "FILE",
        ),
    ]
    specialization: Annotated[
        SpecializationMode,
        Flag(
            "TensorRT-RTX: compile kernels for new shapes before the run (eager), in the background (lazy) or never (none)",
            default=EAGER,
        ),
    ]
    cuda_graph: Annotated[bool, Flag("run the engine as a CUDA graph")]


RUN = (RunningOptions, RunForm, Replacing, Telling)
"""The options of `trtsmith run`."""


def run_of(engine: Path, given: Any) -> RunRequest:
    return request_for(
        engine,
        paths_of(given.plugins),
        given.flavour,
        runtime_cache=path_of(given.runtime_cache),
        cuda_graph=given.cuda_graph,
        specialization=given.specialization,
        profile=given.profile,
        embedded_plugins=given.embedded_plugins,
        verbose=given.verbose,
        timeout_s=given.timeout,
    )


def check_cache(path: Path | None, others: Iterable[object], *, force: bool) -> None:
    """Raises UsageError for a file that cannot be a runtime cache. A folder may have any."""
    if path is not None and not path.is_dir():
        check_report(path, others, "--runtime-cache", "the runtime cache", CACHE, force=force)


@checked_types(RUN)
def run(engine: StrPath, inputs: Arrays, **options: Unpack[keywords.RunKeywords]) -> dict[str, np.ndarray]:
    """Runs an engine in a child process, and returns its outputs by name. A fault in a kernel ends only that process.

    engine:    its file, with the manifest beside it.
    inputs:    an .npz file, or arrays by name, in the model's types.
    embedded_plugins: load the engine's embedded plugin libraries even without a manifest; they run code of their own.
    profile:   the optimization profile.
    runtime_cache: TensorRT-RTX: a file for the kernels that it compiles, or a folder for one file for each engine.
    specialization: TensorRT-RTX: when kernels for new shapes are compiled: "eager", "lazy" or "none".
    cuda_graph: whether the engine runs as a CUDA graph.
    force:     whether the runtime cache may replace a file that is no cache.
    timeout:   time limit of the run, in seconds.

    Other arguments are those of `convert`. `trtsmith.Runner` and `trtsmith.load` run engines in this process, many times.

    >>> import trtsmith
    >>> outputs = trtsmith.run("model.plan", {"x": x})  # doctest: +SKIP
    >>> outputs["y"].shape  # doctest: +SKIP
    (2, 4, 4)

    Raises UsageError for an engine that cannot be run here, and for inputs that do not fit it.
    """
    given = with_defaults(RUN, options)
    check_cache(path_of(given.runtime_cache), (Path(engine),), force=given.force)
    return run_engine(run_of(Path(engine), given), [feeds_of(inputs)], logged(given.progress)).outputs[0]
