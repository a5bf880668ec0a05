"""trtsmith run: runs an engine on arrays from a file, in a child process."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trtsmith.converter.base.arrays import load_arrays, save_arrays
from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.base.output_file import check_report
from trtsmith.converter.base.own_files import ARRAYS
from trtsmith.converter.cli.console import Console, one_line, table
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.run_from_bundle import EngineDescription, describe_bundle
from trtsmith.converter.engine.runtime.run_in_child import describe_engine, run_engine
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.rewrite.types import IoType
from trtsmith.flags import add_options
from trtsmith.run_function import RUN, check_cache, run_of

DESCRIPTION = """Run a TensorRT engine on the arrays of an .npz file. The engine runs in a child process: a fault in a
kernel ends only that process, and the GPU stays usable."""

EPILOG = """The manifest beside the engine names its TensorRT and its plugin libraries, and the inputs and outputs whose
types differ from the model's: arrays have the model's types.
numpy reads bfloat16 and float8 arrays of .npz files as bytes; .view(ml_dtypes.bfloat16) restores the type. Inputs may have
either form.

examples:
  trtsmith run model.plan --list
  trtsmith run model.plan --inputs inputs.npz -o outputs.npz
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("engine", type=Path, metavar="ENGINE", help="the engine")
    parser.add_argument("--inputs", type=Path, metavar="NPZ", help="an array for each input, by its name")
    parser.add_argument("-o", "--output", type=Path, metavar="NPZ", help="the file to write the outputs to")
    parser.add_argument(
        "--list",
        action="store_true",
        help="only show inputs, outputs and profiles; without a GPU, those of the manifest",
    )
    plugins = "that the engine needs and its manifest does not name"
    add_options(parser, RUN, plugins=plugins, timeout="time limit of the run")


def run(options: argparse.Namespace, console: Console) -> int:
    given = (options.engine, manifest_path(options.engine), options.inputs, *options.plugins)
    cache = options.runtime_cache
    check_report(
        options.output, (*given, cache), "-o", "the file of the outputs", ARRAYS, force=options.force
    )
    check_cache(cache, given, force=options.force)
    if options.list and find_gpu() is None:
        console.result(render_description(describe_bundle(options.engine, options.flavour)))
        return EXIT_OK
    feeds = load_arrays(options.inputs, "--inputs") if options.inputs and not options.list else {}
    request = run_of(options.engine, options)
    if options.list:
        console.result(render_info(describe_engine(request, console.progress)))
        return EXIT_OK
    done = run_engine(request, [feeds], console.progress)
    for warning in done.warnings:
        console.say(f"warning: {warning}")
    (outputs,) = done.outputs
    if options.output is not None:
        save_arrays(options.output, outputs, "-o")
    console.result(render_outputs(outputs))
    return EXIT_OK


def render_info(info: EngineInfo) -> str:
    """Renders an engine's inputs, outputs and profiles."""
    lines = [
        f"loaded by {info.flavour} {info.version} on {info.gpu} (compute capability {info.compute_capability})",
        f"memory of an execution context: {info.device_memory / 2**20:.1f} MiB",
    ]
    return "\n".join([*lines, *_tensors(info.inputs, info.outputs, info.profiles, ())])


def render_description(engine: EngineDescription) -> str:
    """Describes the engine by its manifest, without a GPU to load it."""
    made = engine.made
    built = f"built by {made.flavour} {made.version} for {', '.join(made.targets)}, says the manifest"
    head = f"{built}; there is no NVIDIA GPU here to load it on"
    return "\n".join(
        [one_line(head), *_tensors(engine.inputs, engine.outputs, engine.profiles, made.io_types)]
    )


def _tensors(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], profiles: int, io_types: Sequence[IoType]
) -> list[str]:
    """A table of inputs and outputs, and a line for each profile. io_types: those with another type in the model."""
    rows: list[tuple[str, ...]] = [("", "name", "type and shape", "")]
    before = {io.name: f"{io.before} in the model" for io in io_types}
    for spec in (*inputs, *outputs):
        notes = ["its values decide shapes"] if spec.is_shape_tensor else []
        notes += [before[spec.name]] if spec.name in before else []
        rows.append(("input" if spec.is_input else "output", spec.name, str(spec), ", ".join(notes)))
    lines = [table(rows)]
    for index in range(profiles):
        sizes = [_sizes(spec, index) for spec in inputs if index < len(spec.profiles)]
        if sizes:
            lines.append(one_line(f"profile {index}: {', '.join(sizes)}"))
    return lines


def _sizes(spec: TensorSpec, index: int) -> str:
    allowed = spec.profiles[index]
    if spec.is_shape_tensor:
        parts = [str(list(part)).replace(" ", "") for part in (allowed.min, allowed.opt, allowed.max)]
    else:
        parts = ["x".join(map(str, part)) or "scalar" for part in (allowed.min, allowed.opt, allowed.max)]
    return f"{spec.name}={':'.join(parts)}"


def render_outputs(outputs: Mapping[str, np.ndarray]) -> str:
    """Renders types, shapes and ranges of the outputs, and how to read types that .npz does not name."""
    rows: list[tuple[str, ...]] = [("output", "type", "shape", "smallest", "largest", "")]
    nameless = []
    for name, array in outputs.items():
        values = array.astype(np.float64) if array.dtype.kind not in "biu" else array
        low, high = (f"{values.min():.6g}", f"{values.max():.6g}") if array.size else ("", "")
        strange = int(np.count_nonzero(~np.isfinite(values))) if array.dtype.kind not in "biu" else 0
        mark = f"{strange} are not finite" if strange else ""
        rows.append((name, str(array.dtype), "x".join(map(str, array.shape)) or "scalar", low, high, mark))
        if array.dtype.kind == "V":
            nameless.append(f"read {name!r} with numpy.load(FILE)[{name!r}].view(ml_dtypes.{array.dtype})")
    return "\n".join([table(rows), *nameless])
