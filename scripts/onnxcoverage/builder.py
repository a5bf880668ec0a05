"""One engine of one case: TensorRT-RTX's parser and builder in this process, for sm86, without a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from converter import libraries


def build_reason(path: Path, feeds: Mapping[str, Any], *, plugins: bool) -> str:
    """ "" if an engine can be built from the file, else TensorRT's first error.

    feeds: arrays by input name; a shape-tensor input gets its values into the profile, a dynamic one its sizes.
    """
    import tensorrt_rtx as trt

    class Logger(trt.ILogger):  # type: ignore[misc]  # no types
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.ERROR:
                self.errors.append(message)

    logger = Logger()
    builder = trt.Builder(logger)
    if plugins:
        trt.get_plugin_registry().load_library(str(libraries.plugin_library()))
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(path)):
        errors = [parser.get_error(i).desc() for i in range(parser.num_errors)]
        return _shown(errors or logger.errors)
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM86, 0)
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        if tensor.name not in feeds:
            return f"TensorRT makes an input of {tensor.name!r}, which is none"
        array = np.asarray(feeds[tensor.name])
        if tensor.is_shape_tensor:
            values = [int(value) for value in array.reshape(-1)]
            profile.set_shape_input(tensor.name, values, values, values)
        elif -1 in tuple(tensor.shape):
            profile.set_shape(tensor.name, array.shape, array.shape, array.shape)
    if network.num_inputs:
        config.add_optimization_profile(profile)
    logger.errors.clear()
    if builder.build_serialized_network(network, config) is None:
        return _shown(logger.errors)
    return ""


def _shown(errors: list[str]) -> str:
    text = errors[0] if errors else "no message"
    return " ".join(text.split())[:400] or "no message"


def kind_of(reason: str) -> str:
    """A reason without what differs from case to case, so that equal ones can be counted."""
    text = re.sub(r"node_of_\S+|\S*/\S+|'[^']*'|\"[^\"]*\"|\[[^\]]*\]", "*", reason)
    return re.sub(r"-?\d+", "N", text)[:160]
