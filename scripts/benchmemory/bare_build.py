"""Hands a model to TensorRT-RTX and writes the engine, to measure the builder's own use of memory.

    python bare_build.py MODEL ENGINE CAPABILITY [PLUGIN_LIBRARY]     # a member of ComputeCapability: SM86, CURRENT

It imports nothing of this repository.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> None:
    import tensorrt_rtx as trt

    model, engine, capability, *libraries = arguments
    logger = trt.Logger(trt.Logger.ERROR)
    for library in libraries:
        trt.get_plugin_registry().load_library(library)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(model):
        raise SystemExit("\n".join(parser.get_error(i).desc() for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(getattr(trt.ComputeCapability, capability), 0)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit("TensorRT-RTX built no engine")
    Path(engine).write_bytes(plan)


if __name__ == "__main__":
    main(sys.argv[1:])
