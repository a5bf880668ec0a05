"""Builds and runs engines of the networks of narrow_networks.py, and writes their outputs.

    python3 scripts/judgeproof/narrow_engines.py y.json

It needs a GPU, PyTorch, onnx and the Python bindings of TensorRT-RTX, and nothing of trtsmith.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from judgeproof.narrow_networks import cases


def engine_outputs() -> dict[str, Any]:
    """y of each network's engine, and the machine; None for networks that TensorRT does not build."""
    trt = import_module("tensorrt_rtx_bindings")
    import torch

    types = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    logger = trt.Logger(trt.Logger.ERROR)
    outputs: dict[str, Any] = {}
    for name, dtype, network in cases():
        builder = trt.Builder(logger)
        described = builder.create_network(0)
        trt.OnnxParser(described, logger).parse(network.model(dtype).SerializeToString())
        plan = builder.build_serialized_network(described, builder.create_builder_config())
        if plan is None:
            outputs[name] = None
            continue
        engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        x = torch.tensor(network.feed(dtype).astype(np.float32)).to(types[dtype]).cuda()
        y = torch.empty(tuple(context.get_tensor_shape("y")), dtype=types[dtype], device="cuda")
        context.set_tensor_address("x", x.data_ptr())
        context.set_tensor_address("y", y.data_ptr())
        stream = torch.cuda.Stream()
        context.execute_async_v3(stream.cuda_stream)
        stream.synchronize()
        outputs[name] = y.float().cpu().ravel().tolist()
    return {"gpu": torch.cuda.get_device_name(0), "tensorrt": trt.__version__, "outputs": outputs}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(engine_outputs()))
