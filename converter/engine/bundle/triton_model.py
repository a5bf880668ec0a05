"""Runs the engine beside it, as model.py of Triton's Python backend. `trtsmith bundle` copies this file unchanged.

Triton's own TensorRT backend does not run engines of TensorRT-RTX. The server's Python needs trtsmith with the extra gpu.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as triton

import trtsmith


class TritonPythonModel:
    """One instance: a process of the server with an engine of its own."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the engine on the instance's GPU, and compiles its kernels before the first request."""
        config = json.loads(args["model_config"])
        self.joins = config["max_batch_size"] > 0
        self.inputs = [tensor["name"] for tensor in config["input"]]
        engine = Path(args["model_repository"]) / args["model_version"] / "model.plan"
        self.runner = trtsmith.Runner.load(engine, device=int(args["model_instance_device_id"]))
        self.pool = self.runner.pool(1)
        self.pool.warm_up()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Runs the requests that the server joined as one batch; each gets its rows."""
        if not self.joins:
            return [self._answers([request])[0] for request in requests]
        return self._answers(requests)

    def _answers(self, requests: list[Any]) -> list[Any]:
        arrays = [
            {n: triton.get_input_tensor_by_name(request, n).as_numpy() for n in self.inputs}
            for request in requests
        ]
        feeds = {n: np.concatenate([a[n] for a in arrays]) for n in self.inputs} if self.joins else arrays[0]
        try:
            outputs = self.pool(feeds)
        except trtsmith.TrtsmithError as error:
            failed = triton.TritonError(str(error))
            return [triton.InferenceResponse(output_tensors=[], error=failed) for _ in requests]
        if not self.joins:
            return [_response(outputs)]
        ends = np.cumsum([len(a[self.inputs[0]]) for a in arrays])
        parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
        return [
            _response({name: part[number] for name, part in parts.items()}) for number in range(len(requests))
        ]

    def finalize(self) -> None:
        """Frees the engine."""
        self.runner.close()


def _response(outputs: dict[str, np.ndarray]) -> Any:
    tensors = [triton.Tensor(name, np.ascontiguousarray(array)) for name, array in outputs.items()]
    return triton.InferenceResponse(output_tensors=tensors)
