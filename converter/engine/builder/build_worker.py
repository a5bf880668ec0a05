"""Child side of a build: imports TensorRT and builds. converter/engine/child defines how it talks to its parent.

TensorRT's log goes to a file, unbuffered, so that it is complete up to the moment in which the process dies.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import BuildRefused, ConversionError, UsageError
from trtsmith.converter.base.output_file import replacing
from trtsmith.converter.base.process.folder_lock import folder_lock
from trtsmith.converter.engine.builder.build_request import BUILDING, PARSING, BuildRequest, BuildResult
from trtsmith.converter.engine.builder.deployment import apply_settings, check_settings
from trtsmith.converter.engine.builder.explain import explain
from trtsmith.converter.engine.builder.flavour import (
    FIRST_RTX_WITH_PLUGINS,
    Flavour,
    load_flavour,
    network_flags,
)
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.builder.messages import Messages, make_monitor, request_logger
from trtsmith.converter.engine.builder.network import (
    check_network,
    describe_tensors,
    plugin_layers,
    profile_problems,
    set_profile,
)
from trtsmith.converter.engine.builder.plugins import create_all, load_library
from trtsmith.converter.engine.builder.targets import plan_targets, set_targets
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.importers.problem import Problem

_LOADED: list[Path] = []
"""The plugin libraries that this process loaded, or tried to."""


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Builds the requested engine. Returns the BuildResult as JSON."""
    request = BuildRequest.from_json(request_json)
    messages = Messages(log_path, request.verbose, events)
    try:
        return run(request, events, messages).to_json()
    finally:
        messages.flush()


def has_plugins() -> bool:
    """Tells whether a plugin library was loaded into this process: TensorRT's registry keeps it for later requests."""
    return bool(_LOADED)


def run(request: BuildRequest, events: Events, messages: Messages) -> BuildResult:
    """Loads, adds plugins, parses, configures, builds and writes, in this order. Raises ConversionError or UsageError."""
    started = time.monotonic()
    events.phase("loading TensorRT")
    flavour = load_flavour(request.flavour)
    gpu = find_gpu()
    check_settings(flavour.name, request.settings, gpu is not None)
    targets, warnings = plan_targets(flavour, request.targets, gpu)
    trt: Any = flavour.module
    logger = request_logger(flavour, messages)
    events.phase(f"starting the builder of {flavour.title}")
    builder = _make_builder(flavour, logger, messages)  # first: it gives the registry our logger
    _prepare_plugins(flavour, logger, request, events, messages)
    network = builder.create_network(network_flags(flavour))
    events.phase(PARSING)
    parser = trt.OnnxParser(network, logger)
    _parse(flavour, parser, network, request, messages)
    messages.flush()

    config = builder.create_builder_config()
    set_targets(flavour, config, targets, gpu)
    _set_options(flavour, config, request)
    apply_settings(flavour, builder, config, request.settings)
    _set_profiles(builder, network, config, request)
    config.progress_monitor = make_monitor(flavour, events)
    cache = _set_timing_cache(config, request)

    events.phase(BUILDING)
    messages.take_errors()
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildRefused(_build_problems(flavour, request, messages))
    size = memoryview(plan).nbytes
    if request.keep:
        events.phase("writing the engine")
        write_engine(request.engine_path, plan)
    unsaved: list[str] = []
    if cache is not None and request.timing_cache is not None:
        _write_cache(request.timing_cache, config, unsaved.append)
    inputs, outputs = describe_tensors(network)
    return BuildResult(
        engine_path=request.engine_path,
        size=size,
        seconds=time.monotonic() - started,
        flavour=flavour.name,
        version=".".join(map(str, flavour.version)),
        targets=targets,
        inputs=inputs,
        outputs=outputs,
        layers=network.num_layers,
        plugin_layers=plugin_layers(flavour, network),
        warnings=(*warnings, *messages.warnings(), *unsaved),
    )


def _prepare_plugins(
    flavour: Flavour, logger: Any, request: BuildRequest, events: Events, messages: Messages
) -> None:
    trt: Any = flavour.module
    if request.plugins and not flavour.imports_plugins:
        first = ".".join(map(str, FIRST_RTX_WITH_PLUGINS))
        raise UsageError(
            f"The ONNX parser of {flavour.title} cannot make plugin layers.",
            f"node {request.plugins[0].node!r} ({request.plugins[0].name})",
            f"TensorRT-RTX {first} or newer, or TensorRT",
            f"pip install 'tensorrt-rtx>={first}'",
        )
    if not flavour.is_rtx:
        trt.init_libnvinfer_plugins(logger, "")  # NVIDIA's own, such as EfficientNMS_TRT
    registry = trt.get_plugin_registry()
    problems: list[Problem] = []
    for path in request.plugin_libraries:
        _LOADED.append(path)
        events.phase(f"loading the plugin library {path}")
        problems += load_library(registry, path, messages.take_errors)
    if problems:
        raise UsageError(problems)
    if request.plugins:
        problems = create_all(flavour, registry, request.plugins, messages.take_errors, events.phase)
    if problems:
        raise ConversionError(problems)


def _make_builder(flavour: Flavour, logger: Any, messages: Messages) -> Any:
    trt: Any = flavour.module
    try:
        return trt.Builder(logger)
    except (TypeError, RuntimeError) as error:  # pybind11: "factory function returned nullptr"
        said = " ".join(messages.take_errors()) or str(error)
        where = f"the builder of {flavour.title}"
        raise UsageError(explain(said, where, rtx=flavour.is_rtx)) from error


def _parse(flavour: Flavour, parser: Any, network: Any, request: BuildRequest, messages: Messages) -> None:
    rtx = flavour.is_rtx
    parsed = parser.parse_from_file(str(request.onnx_path))
    problems = []
    for index in range(parser.num_errors):
        parser_error = parser.get_error(index)
        number, operator = parser_error.node(), parser_error.node_operator()
        node = f"node {parser_error.node_name()!r} ({operator}), number {number}, in "
        where = (node if number >= 0 and operator else "") + str(request.onnx_path)
        message = f"{parser_error.desc()} [{parser_error.func()}]"
        problems.append(explain(message, where, parser_error.code().name, rtx=rtx))
    if not parsed and not problems:
        said = " ".join(messages.take_errors()) or "no message"
        problems.append(explain(said, str(request.onnx_path), rtx=rtx))
    if problems:
        raise BuildRefused(tuple(dict.fromkeys(problems)))
    problems = check_network(network, request.onnx_path)
    if problems:
        raise ConversionError(problems)


def _set_options(flavour: Flavour, config: Any, request: BuildRequest) -> None:
    trt: Any = flavour.module
    if request.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, request.workspace << 20)
    if request.optimization_level is not None:
        config.builder_optimization_level = request.optimization_level
    if request.layer_details:
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if request.embed_plugins and request.plugin_libraries:
        config.plugins_to_serialize = [str(path) for path in request.plugin_libraries]


def _set_profiles(builder: Any, network: Any, config: Any, request: BuildRequest) -> None:
    profiles: Sequence[Mapping[str, Any]] = request.profiles or ({},)
    problems = [problem for sizes in profiles for problem in profile_problems(network, sizes)]
    if problems:
        raise UsageError(tuple(dict.fromkeys(problems)))
    for sizes in request.profiles:
        profile = builder.create_optimization_profile()
        set_profile(profile, network, sizes)
        if config.add_optimization_profile(profile) < 0:
            raise UsageError(
                "TensorRT refused an optimization profile.",
                ", ".join(f"--shapes {name}" for name in sizes),
                "sizes that fit the model's inputs, from smallest to largest",
                "correct the sizes",
            )


def _set_timing_cache(config: Any, request: BuildRequest) -> Any:
    if request.timing_cache is None:
        return None
    data = request.timing_cache.read_bytes() if request.timing_cache.is_file() else b""
    cache = config.create_timing_cache(data)
    if cache is None or not config.set_timing_cache(cache, False):
        cache = config.create_timing_cache(b"")  # of another version or GPU: start anew
        config.set_timing_cache(cache, False)
    return cache


def _write_cache(path: Path, config: Any, warn: Callable[[str], None]) -> None:
    """Add this build's timings to the file; of builds that share it, one writes at a time.

    The engine is there already: what goes wrong is a warning.
    """
    cache = config.get_timing_cache()
    try:
        with folder_lock(path.parent, warn):
            if path.is_file():  # another build may have written since this one read
                with suppress(TypeError):  # of another version or GPU: None
                    cache.combine(config.create_timing_cache(path.read_bytes()), False)
            with replacing(path) as descriptor, open(descriptor, "wb", closefd=False) as stream:
                stream.write(cache.serialize())
    except OSError as error:
        warn(f"the timing cache {path} is as it was: {error.strerror or error}")


def _build_problems(flavour: Flavour, request: BuildRequest, messages: Messages) -> list[Problem]:
    """One for each reason. The last node that the log names is the last that was read, and none of them."""
    errors = messages.take_errors() or ["no message"]
    return [explain(error, f"{request.onnx_path}", rtx=flavour.is_rtx) for error in dict.fromkeys(errors)]


def write_engine(path: Path, data: Any) -> int:
    """Writes and syncs a new file, which the parent renames. A half-written file is removed."""
    view = memoryview(data).cast("B")
    try:
        with open(path, "xb") as file:
            file.write(view)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(
            f"The file could not be written: {error.strerror or error}.",
            str(path.parent),
            f"room for {len(view)} bytes",
            "free some space, or choose another folder",
        ) from error
    return len(view)


if __name__ == "__main__":
    serve(sys.argv[1:], main, spent=has_plugins)
