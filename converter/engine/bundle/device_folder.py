"""Stage: writes a folder from which a Jetson or DGX Spark builds the engine, runs it and compares its outputs.

model.onnx, model.manifest.json           the rewritten graph, and what is known of it
cuda12/, cuda13/libtrtsmith_plugins*.so   the plugin libraries for aarch64; the driver decides which of the two
inputs.npz, expected.npz, bounds.npz      what is run, what is expected, by how much each element may be off
build_here.py                             the script; it leaves a bundle, as `convert` writes it where it builds
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.base.arrays import write_npz
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.gpu_names import DEVICES
from trtsmith.converter.base.output_file import unfinished_folder
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult, EngineTensor, Profile
from trtsmith.converter.engine.builder.deployment import SETTABLE
from trtsmith.converter.engine.bundle import build_here
from trtsmith.converter.engine.bundle.bundle import Bundle, file_digest, manifest_path
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.problem import Problem

ENGINE = "model.plan"

_AARCH64 = 183  # EM_AARCH64 of elf.h, at byte 18 of a library

_NOT_FOR_TRTEXEC = re.compile(r"[,'\"\\\0]")
"""Separators of --loadInputs and --shapes, what --exportOutput does not escape, and what no program's arguments hold."""

_IN_WHEEL = re.compile(r"trtsmith/converter/lib/(?:(cuda12)/)?(libtrtsmith_plugins(?:_v2)?\.so)")


def check_folder(folder: Path) -> None:
    """Checks before any work that the folder can be made. Raises UsageError."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what, fix = f"{folder} exists already", "name another with -o, or remove it"
        raise UsageError(what, f"-o {folder}", "a new or empty folder", fix)
    if not folder.parent.is_dir() or not os.access(folder.parent, os.W_OK):
        fix = f"mkdir -p {folder.parent}, or name another with -o"
        raise UsageError("the folder cannot be made", f"-o {folder}", "a writable folder around it", fix)


def check_names(graph: onnx.GraphProto) -> None:
    """Checks input and output names. Raises UsageError for names that trtexec would misread, such as a file to load."""
    problems = [
        Problem(
            f"the {kind} {value.name!r} has a name that trtexec cannot read or write",
            f"{kind} {value.name!r}",
            "a name without commas, quotation marks, backslashes and zero bytes, for --bundle-for",
            "export the model with another name",
        )
        for kind, values in (("input", graph.input), ("output", graph.output))
        for value in values
        if _NOT_FOR_TRTEXEC.search(value.name)
    ]
    if problems:
        raise UsageError(problems)


def device_libraries(device: str, wheel: Path | None, others: Sequence[Path] = ()) -> dict[str, bytes]:
    """Returns trtsmith's plugin libraries for the device, by their place in the folder.

    wheel: of trtsmith for aarch64; None: what this installation has. others: libraries that the engine needs, too.
    UsageError where there is none of ours, and for others, which are of this machine.
    """
    target = DEVICES[device]
    if others:
        what = f"the plugin library {others[0].name} is not trtsmith's: no build of it for aarch64 is known"
        fix = "leave its nodes out, or convert the model on the device with that library"
        raise UsageError(what, str(others[0]), "plugins of trtsmith alone", fix)
    found = {}
    try:
        for place, data in _in_wheel(wheel) if wheel is not None else _installed():
            known = re.search(rb'"cuda_architectures": "([^"]*)"', data)
            covered = known is not None and not libraries.uncovered((target,), known.group(1).decode())
            if covered and int.from_bytes(data[18:20], "little") == _AARCH64:
                found[place] = data
    except (OSError, zipfile.BadZipFile) as error:
        fix = "name the .whl file that make wheel wrote"
        raise UsageError(
            f"the wheel cannot be read: {error}", f"{wheel}", "a wheel of trtsmith", fix
        ) from error
    if not found:
        raise UsageError(
            f"{wheel or 'this installation'} has no plugin libraries for aarch64 with kernels for {target}",
            f"--bundle-for {device}" + (f" --plugins-aarch64 {wheel}" if wheel else ""),
            "a wheel of trtsmith for aarch64",
            "in a checkout: make wheel PLATFORM=aarch64; then --plugins-aarch64 dist/trtsmith-...-aarch64.whl",
        )
    return found


def _in_wheel(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if (found := _IN_WHEEL.fullmatch(name)) is not None:
                yield f"{found.group(1) or 'cuda13'}/{found.group(2)}", archive.read(name)


def _installed() -> Iterator[tuple[str, bytes]]:
    for place, folder in (("cuda13", libraries.FOLDER), ("cuda12", libraries.FOLDER / "cuda12")):
        for library in sorted(folder.glob("libtrtsmith_plugins*.so")):
            yield f"{place}/{library.name}", library.read_bytes()


def not_built(model: Model, request: BuildRequest) -> BuildResult:
    """Describes the engine that the device will build from the graph."""
    graph = model.proto.graph
    held = {tensor.name for tensor in graph.initializer}
    return BuildResult(
        engine_path=request.engine_path,
        size=0,
        seconds=0.0,
        flavour="tensorrt",
        version="",
        targets=request.targets,
        inputs=tuple(_tensor(value, "input") for value in graph.input if value.name not in held),
        outputs=tuple(_tensor(value, "output") for value in graph.output),
        layers=len(graph.node),
        plugin_layers=tuple(use.node for use in request.plugins),
    )


def _tensor(value: onnx.ValueInfoProto, mode: str) -> EngineTensor:
    tensor = value.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return EngineTensor(value.name, dtype_name(tensor.elem_type), shape, mode)


def write_folder(
    folder: Path,
    model: Model,
    request: BuildRequest,
    held: Mapping[str, bytes],
    arrays: Mapping[str, Mapping[str, np.ndarray]],
    outputs: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
) -> Bundle:
    """Writes everything under a temporary name, then renames the folder. Raises UsageError if the disk refuses.

    held: of `device_libraries`. arrays: of inputs, expected and bounds. outputs: how each is compared, for the manifest.
    """
    made: Path | None = None
    manifest = manifest_path(folder / ENGINE)
    # trtexec takes their values from --shapes; out of a file 10.3 reads int64 as int32
    shape_tensors = {n for profile in request.profiles for n, one in profile.items() if one.values}
    try:
        made = unfinished_folder(folder.parent)
        save_model(model, made / "model.onnx")
        for place, data in held.items():
            (made / place).parent.mkdir(exist_ok=True)
            (made / place).write_bytes(data)
        for name, values in arrays.items():
            with (made / f"{name}.npz").open("wb") as stream:
                write_npz(stream, {n: value for n, value in values.items() if n not in shape_tensors})
        shutil.copyfile(build_here.__file__, made / "build_here.py")
        device = {
            "build": [*_build_words(request), *_shape_words(request)],
            "run": _run_words(request, arrays["inputs"]),
            "outputs": list(outputs),
            "files": {str(path.relative_to(made)): file_digest(path) for path in sorted(made.rglob("*.*"))},
        }
        text = json.dumps({**facts, "files": {}, "device": device}, indent=1)
        (made / manifest.name).write_text(text + "\n", encoding="utf-8")
        os.rename(made, folder)  # an empty folder of that name gives way
        made = None
    except OSError as error:
        what, fix = f"the folder cannot be written: {error.strerror}", "free space, or -o elsewhere"
        raise UsageError(what, str(folder), "room and permission", fix) from error
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
    return Bundle(folder / ENGINE, tuple(folder / place for place in held), manifest)


def _build_words(request: BuildRequest) -> Iterator[str]:
    """trtexec's flags, as 10.3 to 11.1 have them. The graph has its types: --fp16 and its like would choose others."""
    yield "--stronglyTyped"
    if request.workspace is not None:
        yield f"--memPoolSize=workspace:{request.workspace}"
    if request.optimization_level is not None:
        yield f"--builderOptimizationLevel={request.optimization_level}"
    if request.layer_details:
        yield "--profilingVerbosity=detailed"
    for name, value in request.settings.items():
        flag = SETTABLE[name].trtexec.split()[0]
        if name != "strongly_typed":
            yield flag if value is True else f"{flag}={value}"
    if "use_dla_core" in request.settings:
        yield "--allowGPUFallback"


def _shape_words(request: BuildRequest) -> Iterator[str]:
    for end in ("min", "opt", "max"):
        sizes = {n: getattr(one, end) for profile in request.profiles for n, one in profile.items()}
        if sizes:
            yield f"--{end}Shapes={_sizes(sizes)}"


def _run_words(request: BuildRequest, inputs: Mapping[str, np.ndarray]) -> list[str]:
    """The sizes that the inputs have; of shape tensors the values."""
    profile: Mapping[str, Profile] = {n: p for one in request.profiles for n, p in one.items()}
    sizes = {
        name: tuple(inputs[name].ravel().tolist()) if one.values else inputs[name].shape
        for name, one in profile.items()
        if name in inputs
    }
    return [f"--shapes={_sizes(sizes)}"] if sizes else []


def _sizes(sizes: Mapping[str, Sequence[int]]) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, one))}" for name, one in sizes.items())
