"""Writes the config.pbtxt of an engine for Triton Inference Server from its manifest.

Field names and values are those of model_config.proto (triton-inference-server/common), to which a test holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_request import EngineTensor
from trtsmith.converter.engine.bundle.engine_facts import Facts

TYPES = {
    "float32": "TYPE_FP32",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "int8": "TYPE_INT8",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "uint8": "TYPE_UINT8",
    "bool": "TYPE_BOOL",
}
"""What Triton's TensorRT backend takes, by numpy's name."""

_OTHERS = {"float64": "TYPE_FP64", "int16": "TYPE_INT16"} | {
    f"uint{n}": f"TYPE_UINT{n}" for n in (16, 32, 64)
}
PYTHON_TYPES = {name: type_ for name, type_ in (TYPES | _OTHERS).items() if name != "bfloat16"}
"""What Triton's Python backend exchanges with numpy."""

ENGINE_NAME = "model.plan"
PYTHON_NAME = "model.py"


@dataclass(frozen=True)
class TritonOptions:
    """The user's options. name: of the model in the repository. version: the folder of the engine, from 1 on. batching: None
    to decide by the engine. instances: execution contexts on each GPU; in Python, processes. queue_delay_us: the longest
    wait to fill a batch, in us.
    """

    repository: Path
    name: str
    version: int = 1
    batching: bool | None = None
    instances: int = 1
    queue_delay_us: int = 100


def types_of(facts: Facts) -> Mapping[str, str]:
    """What the backend takes, by numpy's name."""
    return PYTHON_TYPES if facts.is_rtx else TYPES


def largest_batch(facts: Facts, options: TritonOptions) -> int:
    """Returns the largest batch if every input and output has a batch dimension first; else 0."""
    if options.batching is False:
        return 0
    ranges = {_first_range(facts, tensor) for tensor in facts.inputs}
    dynamic = all(tensor.shape[:1] == (-1,) for tensor in (*facts.inputs, *facts.outputs))
    (low, high) = ranges.pop() if len(ranges) == 1 else (0, 0)
    if dynamic and not ranges and low <= 1 < high:
        return high
    if options.batching:
        raise UsageError(
            "the server cannot batch requests for this engine",
            "--batching",
            "a dynamic first dimension in every input and output, with the same range, from 1",
            "convert the model with such --shapes, or leave --batching out",
        )
    return 0


def _first_range(facts: Facts, tensor: EngineTensor) -> tuple[int, int]:
    """(smallest, largest) first dimension of an input in the first profile; (0, 0) if it cannot be a batch."""
    profile = facts.profiles[0].get(tensor.name) if facts.profiles else None
    if profile is None or tensor.is_shape_tensor or profile.values or not profile.min:
        return 0, 0
    return profile.min[0], profile.max[0]


def config_text(facts: Facts, options: TritonOptions, batch: int) -> str:
    """Writes the config.pbtxt of an engine. batch: 0 for full shapes; else the first dimension of every tensor is left out
    of `dims`, as Triton asks, and requests are joined along it.
    """
    lines = [
        f"name: {_quoted(options.name)}",
        *(['backend: "python"'] if facts.is_rtx else ['platform: "tensorrt_plan"', 'backend: "tensorrt"']),
        f"default_model_filename: {_quoted(PYTHON_NAME if facts.is_rtx else ENGINE_NAME)}",
        f"max_batch_size: {batch}",
    ]
    for kind, named in (("input", facts.inputs), ("output", facts.outputs)):
        for tensor in named:
            lines += _tensor(kind, tensor, batch, facts)
    lines += ["instance_group {", f"  count: {options.instances}", "  kind: KIND_GPU", "}"]
    if batch:
        usual = facts.profiles[0][facts.inputs[0].name].opt[0]
        lines += [
            "dynamic_batching {",
            f"  preferred_batch_size: {usual}",
            f"  max_queue_delay_microseconds: {options.queue_delay_us}",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _tensor(kind: str, tensor: EngineTensor, batch: int, facts: Facts) -> list[str]:
    dims = tensor.shape[1 if batch else 0 :]
    lines = [
        f"{kind} {{",
        f"  name: {_quoted(tensor.name)}",
        f"  data_type: {types_of(facts)[tensor.dtype]}",
        *(f"  dims: {size}" for size in dims or (1,)),
    ]
    if not dims:  # Triton wants a dimension, TensorRT has none
        lines.append("  reshape { }")
    if tensor.is_shape_tensor and not facts.is_rtx:
        lines.append("  is_shape_tensor: true")
    return [*lines, "}"]


def _quoted(text: str) -> str:
    """A string of protobuf's text format: bytes beyond printable ASCII in octal."""
    special = {ord('"'): '\\"', ord("\\"): "\\\\"}
    return (
        '"' + "".join(special.get(b, chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'
    )
