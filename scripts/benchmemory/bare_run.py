"""Loads an engine with TensorRT-RTX and runs it once, to measure the runtime's own use of memory.

    python bare_run.py ENGINE     # of float32 inputs and outputs of fixed shapes

It imports nothing of this repository. The engine's file is mapped while TensorRT-RTX reads it, and no longer: a process that
gives TensorRT-RTX an engine in a buffer cannot do with less.
"""

from __future__ import annotations

import importlib
import mmap
import os
import sys
from math import prod
from typing import Any

_FLOAT_BYTES = 4


def main(engine_path: str) -> None:
    trt: Any = importlib.import_module("tensorrt_rtx")
    driver: Any = importlib.import_module("cuda.bindings.driver")
    run(trt, driver, engine_path)
    os._exit(0)  # nothing is torn down, as in the process of `trtsmith verify`


def run(trt: Any, driver: Any, engine_path: str) -> None:
    """Load and run. trt, driver: the modules tensorrt_rtx and cuda.bindings.driver. SystemExit where one refuses."""

    def cuda(answer: tuple[Any, ...]) -> Any:
        if answer[0]:
            raise SystemExit(f"CUDA refuses: {answer[0]!r}")
        return answer[1] if len(answer) > 1 else None

    cuda(driver.cuInit(0))
    cuda(driver.cuCtxSetCurrent(cuda(driver.cuDevicePrimaryCtxRetain(cuda(driver.cuDeviceGet(0))))))
    stream = cuda(driver.cuStreamCreate(0))
    runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
    with open(engine_path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    engine = runtime.deserialize_cuda_engine(data)
    del data
    if engine is None:
        raise SystemExit("TensorRT-RTX does not load the engine")
    context = engine.create_execution_context()
    if context is None:
        raise SystemExit("TensorRT-RTX makes no execution context")
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        size = _FLOAT_BYTES * prod(tuple(engine.get_tensor_shape(name)))
        pointer = cuda(driver.cuMemAlloc(size))
        cuda(driver.cuMemsetD8(pointer, 0, size))
        if not context.set_tensor_address(name, int(pointer)):
            raise SystemExit(f"TensorRT-RTX does not take the address of {name!r}")
    if not context.execute_async_v3(int(stream)):
        raise SystemExit("TensorRT-RTX does not run the engine")
    cuda(driver.cuStreamSynchronize(stream))


if __name__ == "__main__":
    main(sys.argv[1])
