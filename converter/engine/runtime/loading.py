"""Loads an engine with its plugin libraries, and reads the engine's description from TensorRT."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.builder.flavour import Flavour, trt_dtype_name
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.builder.plugins import load_library
from trtsmith.converter.engine.bundle.bundle import file_digest
from trtsmith.converter.engine.runtime.explain_failure import EngineIdentity, loading_problem
from trtsmith.converter.engine.runtime.runtime_log import TensorrtLog
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.rewrite.target import version_of
from trtsmith.importers.problem import Problem

# Names that only TensorRT-RTX has; each is used behind a test of the flavour's name.
RTX_ONLY = frozenset(
    {
        "EngineInvalidityDiagnostics",
        "EngineInvalidityDiagnostics.__members__",
        "Runtime.get_engine_validity",
    }
)

_RUNNABLE = frozenset(
    ("float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int32", "int64", "bool")
)
_FEWEST_BYTES = 64  # less than the header of an engine


@dataclass(frozen=True)
class LoadedEngine:
    """An engine in this process. runtime, engine: TensorRT's objects."""

    flavour: Flavour
    runtime: Any
    engine: Any
    info: EngineInfo
    origin: EngineIdentity
    log: TensorrtLog


def read_engine(path: Path) -> Any:
    """Maps the file's bytes. Raises UsageError if it cannot be read, or is too short to be an engine."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            if size >= _FEWEST_BYTES:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        what = f"The engine cannot be read: {error.strerror or error}."
        raise UsageError(what, str(path), "a file that you may read", "correct the path") from error
    raise UsageError(
        f"The file is not an engine: it has {size} bytes.",
        str(path),
        "an engine that TensorRT or `trtsmith convert` wrote",
        "correct the path, or convert the model again",
    )


def check_version(flavour: Flavour, origin: EngineIdentity) -> None:
    """Raises UsageError if the manifest names another TensorRT than the installed one, which cannot load the engine."""
    if not origin.built_version or version_of(origin.built_version)[:3] == flavour.version[:3]:
        return
    package = "tensorrt-rtx" if flavour.is_rtx else "tensorrt"
    raise UsageError(
        f"The engine was built by {flavour.name} {origin.built_version}; here is {flavour.title}.",
        origin.where,
        f"{flavour.name} {origin.built_version}",
        f"pip install {package}=={origin.built_version}, or convert the model again with this one",
    )


def load_engine(
    flavour: Flavour,
    data: Any,
    libraries: Sequence[Path],
    gpu: Gpu,
    origin: EngineIdentity,
    log: TensorrtLog,
    *,
    embedded_plugins: bool = False,
) -> LoadedEngine:
    """Loads plugin libraries and then the engine from its bytes. Raises UsageError with the faults of either."""
    trt: Any = flavour.module
    check_version(flavour, origin)
    logger = log.logger
    runtime = trt.Runtime(logger)  # first: it gives the plugin registry our logger
    load_plugins(flavour, libraries, log)
    log.announce(f"loading the engine {origin.where}")
    runtime.engine_host_code_allowed = embedded_plugins
    log.take_errors()
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        said = log.take_errors()
        diagnosis = _diagnose(flavour, runtime, data) if flavour.is_rtx else ""
        raise UsageError(loading_problem(said, diagnosis, origin, flavour, gpu))
    info = describe_engine(flavour, engine, gpu)
    problems = unsupported(flavour, engine, info, origin)
    if problems:
        raise UsageError(problems)
    return LoadedEngine(flavour, runtime, engine, info, origin, log)


def load_plugins(flavour: Flavour, libraries: Sequence[Path], log: TensorrtLog) -> None:
    """Gives the registry the creators of each library, once in a process. Raises UsageError with all that fails.

    Every bundle has a copy of its library, and the registry refuses creators that it has: by its bytes a library is known.
    """
    trt: Any = flavour.module
    if not flavour.is_rtx:
        logger = log.logger
        trt.init_libnvinfer_plugins(logger, "")  # NVIDIA's own, such as EfficientNMS_TRT
    registry = trt.get_plugin_registry()
    problems: list[Problem] = []
    for path in libraries:
        key = path.resolve()
        if key in log.libraries:
            continue
        digest = file_digest(path) if path.is_file() else ""
        if digest and digest in log.libraries.values():
            log.libraries[key] = digest
            continue
        log.announce(f"loading the plugin library {path}")
        found = load_library(registry, path, log.take_errors)
        problems += found
        if not found:
            log.libraries[key] = digest
    if problems:
        raise UsageError(problems)


def describe_engine(flavour: Flavour, engine: Any, gpu: Gpu) -> EngineInfo:
    """Describes the engine, as TensorRT reports it."""
    trt: Any = flavour.module
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    specs = [_describe(flavour, engine, name) for name in names]
    major, minor = gpu.compute_capability
    return EngineInfo(
        flavour=flavour.name,
        version=str(trt.__version__),
        gpu=gpu.name,
        compute_capability=f"{major}.{minor}",
        inputs=tuple(spec for spec in specs if spec.is_input),
        outputs=tuple(spec for spec in specs if not spec.is_input),
        profiles=engine.num_optimization_profiles,
        device_memory=engine.device_memory_size_v2,
    )


def _describe(flavour: Flavour, engine: Any, name: str) -> TensorSpec:
    trt: Any = flavour.module
    is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
    on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
    profiles: list[Profile] = []
    if is_input:
        for index in range(engine.num_optimization_profiles):
            if on_host:  # the binding's own names for these two arguments are the wrong way round
                values = engine.get_tensor_profile_values(index, name)
            else:
                values = engine.get_tensor_profile_shape(name, index)
            if len(values) == 3:
                low, usual, high = (tuple(int(value) for value in part) for part in values)
                profiles.append(Profile(low, usual, high, values=on_host))
    return TensorSpec(
        name=name,
        dtype=trt_dtype_name(engine.get_tensor_dtype(name).name),
        shape=tuple(engine.get_tensor_shape(name)),
        is_input=is_input,
        is_shape_tensor=on_host,
        profiles=tuple(profiles),
    )


def unsupported(flavour: Flavour, engine: Any, info: EngineInfo, origin: EngineIdentity) -> list[Problem]:
    """Lists inputs and outputs that the runner cannot handle: packed types, and formats that are not linear."""
    trt: Any = flavour.module
    problems = []
    for spec in (*info.inputs, *info.outputs):
        where = f"{'input' if spec.is_input else 'output'} {spec.name!r} of {origin.where}"
        if spec.dtype not in _RUNNABLE:
            problems.append(
                Problem(
                    f"No array library has the type {spec.dtype} of {spec.name!r}.",
                    where,
                    f"one of {', '.join(sorted(_RUNNABLE))}",
                    "build the engine with a cast to one of those at its edge",
                )
            )
        elif engine.get_tensor_format(spec.name) != trt.TensorFormat.LINEAR:
            problems.append(
                Problem(
                    f"The elements of {spec.name!r} are in the format {engine.get_tensor_format(spec.name).name}.",
                    where,
                    "the linear format, in which arrays are",
                    "build the engine without --inputIOFormats and --outputIOFormats",
                )
            )
    return problems


def _diagnose(flavour: Flavour, runtime: Any, data: Any) -> str:
    """What TensorRT-RTX finds of an engine's header, such as "UNSUPPORTED_CC, OLD_CUDA_DRIVER"."""
    trt: Any = flavour.module
    values = runtime.get_engine_validity(data)
    types = trt.EngineInvalidityDiagnostics.__members__
    return ", ".join(name for name, bit in types.items() if int(values[1]) & int(bit))
