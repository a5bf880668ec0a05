"""Describes an engine: its inputs and outputs, and how it was loaded. Uses neither TensorRT nor CUDA."""

from __future__ import annotations

from dataclasses import dataclass

from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.engine.builder.build_request import Profile


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of an engine.

    dtype:           as numpy and ml_dtypes name it: "float32", "bfloat16", "float8_e4m3fn", "int64", "bool".
    shape:           -1 is a dynamic dimension.
    is_shape_tensor: its values decide shapes, and TensorRT has them in host memory.
    profiles:        for an input, the sizes that each optimization profile allows (values, of a shape tensor).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_input: bool
    is_shape_tensor: bool = False
    profiles: tuple[Profile, ...] = ()

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if size < 0 else str(size) for size in self.shape)}]"


@dataclass(frozen=True)
class EngineInfo(PlainData):
    """A loaded engine.

    flavour, version:   of the TensorRT that loaded it: "tensorrt_rtx", "1.6.1.120".
    gpu:                its name, "NVIDIA H200"; compute_capability "9.0".
    profiles:           how many optimization profiles it has.
    device_memory:      bytes of activation memory that an execution context takes.
    """

    flavour: str
    version: str
    gpu: str
    compute_capability: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    profiles: int
    device_memory: int
