"""Builds one engine of one case with TensorRT-RTX in this process, for sm86 or for this machine's GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.flavour import Flavour, load_flavour
from trtsmith.converter.engine.runtime.runtime_log import process_log

NO_GPU_TARGET = "SM86"
"""A member of trt.ComputeCapability: what engines are built for where no GPU is."""

GPU_TARGET = "CURRENT"
"""The same for the GPU that is there, of any compute capability."""


@dataclass(frozen=True)
class Built:
    """An engine, or the reason for its absence; one of the two is empty."""

    engine: bytes
    reason: str


@dataclass(frozen=True)
class Sizes:
    """The profile of an input: (min, opt, max) of its shape, and of its values if it is a shape tensor."""

    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    values: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None = None

    @staticmethod
    def of(array: np.ndarray) -> Sizes:
        """The profile for exactly this array."""
        counts = array.dtype.kind in "iub" or (array.dtype.kind == "f" and bool(np.isfinite(array).all()))
        values = tuple(int(value) for value in array.reshape(-1)) if counts else None
        return Sizes((array.shape,) * 3, None if values is None else (values,) * 3)


def build_reason(path: Path, feeds: Mapping[str, Any], *, plugins: bool) -> str:
    """ "" if an engine for sm86 can be built from the file, else TensorRT's first error. feeds: as of build_engine."""
    return build_engine(path, sizes_of(feeds), plugins=plugins).reason


def sizes_of(feeds: Mapping[str, Any]) -> dict[str, Sizes]:
    """A profile for exactly these arrays. Sequences and the like are left out, as TensorRT takes none."""
    arrays = {n: np.asarray(a) for n, a in feeds.items() if isinstance(a, (np.ndarray, np.generic))}
    return {name: Sizes.of(array) for name, array in arrays.items()}


def build_engine(
    path: Path,
    sizes: Mapping[str, Sizes],
    *,
    plugins: bool = False,
    embed: bool = False,
    layer_details: bool = False,
    target: str = NO_GPU_TARGET,
    aux_streams: int | None = None,
) -> Built:
    """An engine of the file, or TensorRT's first error.

    sizes: by input name; a shape-tensor input gets its values into the profile, a dynamic one its sizes.
    plugins: load our plugin library. embed: put it into the engine. layer_details: let its inspector tell of layers.
    target: a member of trt.ComputeCapability. aux_streams: how many more streams the engine may use; None: TensorRT decides.
    """
    flavour = load_flavour("tensorrt_rtx")
    trt: Any = flavour.module
    # One logger for the process, the runner's too: TensorRT keeps the first that it is given.
    log = process_log(flavour)
    builder = trt.Builder(log.logger)
    log.take_errors()  # those of an earlier build
    if plugins:
        _load_plugins(flavour)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log.logger)
    if not parser.parse_from_file(str(path)):
        errors = [parser.get_error(i).desc() for i in range(parser.num_errors)]
        return Built(b"", _shown(errors or log.take_errors()))
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(getattr(trt.ComputeCapability, target), 0)
    if embed:
        config.plugins_to_serialize = [str(libraries.plugin_library())]
    if layer_details:
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if aux_streams is not None:
        config.max_aux_streams = aux_streams
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if tensor.name not in sizes:
            return Built(b"", f"TensorRT makes an input of {tensor.name!r}, which is none")
        given = sizes[tensor.name]
        if tensor.is_shape_tensor and given.values is not None:
            profile.set_shape_input(tensor.name, *given.values)
        elif -1 in tuple(tensor.shape):
            profile.set_shape(tensor.name, *given.shapes)
    if network.num_inputs:
        config.add_optimization_profile(profile)
    log.take_errors()
    engine = builder.build_serialized_network(network, config)
    return Built(b"", _shown(log.take_errors())) if engine is None else Built(bytes(engine), "")


@cache
def _load_plugins(flavour: Flavour) -> None:
    """Loads our plugins once per process, as TensorRT's registry keeps them."""
    flavour.module.get_plugin_registry().load_library(str(libraries.plugin_library()))


def _shown(errors: list[str]) -> str:
    text = errors[0] if errors else "no message"
    return " ".join(text.split())[:400] or "no message"


def kind_of(reason: str) -> str:
    """A reason without the parts that vary between cases, so that equal ones can be counted."""
    text = re.sub(r"node_of_\S+|\S*/\S+|'[^']*'|\"[^\"]*\"|\[[^\]]*\]", "*", reason)
    return re.sub(r"-?\d+", "N", text)[:160]
