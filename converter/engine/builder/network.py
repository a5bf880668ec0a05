"""Child side of a build: describes the parsed network, and checks that the profiles fit it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.builder.build_request import EngineTensor, Profile
from trtsmith.converter.engine.builder.flavour import Flavour, trt_dtype_name
from trtsmith.importers.problem import Problem


def check_network(network: Any, onnx_path: Path) -> list[Problem]:
    """Checks what the parser misses: it accepts an empty or random file as an empty model."""
    if network.num_outputs == 0:
        return [
            Problem(
                "The file holds no model: it has no output.",
                str(onnx_path),
                "an ONNX model with inputs, nodes and outputs",
                "export or copy the model again",
            )
        ]
    problems = []
    for tensor in _inputs(network):
        shape = tuple(tensor.shape)
        if prod(max(size, 1) for size in shape) >= 2**40:
            problems.append(
                Problem(
                    f"The input is too large: {_joined(shape)}.",
                    f"input {tensor.name!r} of {onnx_path}",
                    "fewer than 2^40 elements",
                    "correct the input's shape in the model",
                )
            )
    return problems


def profile_problems(network: Any, sizes: Mapping[str, Profile]) -> list[Problem]:
    """Finds all problems of one optimization profile's sizes, for all inputs at once."""
    inputs = {tensor.name: tensor for tensor in _inputs(network)}
    problems = [
        Problem(
            f"The model has no input {name!r}.",
            f"--shapes {name}=...",
            f"one of {', '.join(inputs) or '(none)'}",
            "correct the name",
        )
        for name in sizes
        if name not in inputs
    ]
    for name, tensor in inputs.items():
        given = sizes.get(name)
        if given is not None:
            problems += _check_sizes(tensor, given)
        elif tensor.is_shape_tensor or -1 in tuple(tensor.shape):
            problems.append(_missing(tensor))
    return problems


def set_profile(profile: Any, network: Any, sizes: Mapping[str, Profile]) -> None:
    """Sets the sizes of an optimization profile, which have passed `profile_problems`."""
    for tensor in _inputs(network):
        given = sizes.get(tensor.name)
        if given is None:
            continue
        if tensor.is_shape_tensor:
            profile.set_shape_input(tensor.name, given.min, given.opt, given.max)
        else:
            profile.set_shape(tensor.name, given.min, given.opt, given.max)


def describe_tensors(network: Any) -> tuple[tuple[EngineTensor, ...], tuple[EngineTensor, ...]]:
    """Describes (inputs, outputs) of the network."""
    outputs = [network.get_output(index) for index in range(network.num_outputs)]
    return (
        tuple(_describe(tensor, "input") for tensor in _inputs(network)),
        tuple(_describe(tensor, "output") for tensor in outputs),
    )


def plugin_layers(flavour: Flavour, network: Any) -> tuple[str, ...]:
    """Names the layers that are plugins, in the network's order."""
    trt: Any = flavour.module
    plugin_types = (trt.LayerType.PLUGIN_V3, trt.LayerType.PLUGIN_V2)
    names = []
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        if layer.type in plugin_types:
            names.append(layer.name)
    return tuple(names)


def _inputs(network: Any) -> list[Any]:
    return [network.get_input(index) for index in range(network.num_inputs)]


def _describe(tensor: Any, mode: str) -> EngineTensor:
    dtype = trt_dtype_name(tensor.dtype.name)
    return EngineTensor(tensor.name, dtype, tuple(tensor.shape), mode, bool(tensor.is_shape_tensor))


def _check_sizes(tensor: Any, given: Profile) -> list[Problem]:
    shape = tuple(tensor.shape)
    if given.values and not tensor.is_shape_tensor:
        what = f"The values of the input {tensor.name!r} decide no shape."
        where = f"input {tensor.name!r}, --values {tensor.name}=..."
        fix = "remove the flag; or widen its range, if trtsmith asked for it: within these values, no size changes"
        return [Problem(what, where, "values of inputs that decide shapes only", fix)]
    flag = f"--shapes {tensor.name}={_joined(given.min)}:{_joined(given.opt)}:{_joined(given.max)}"
    where = f"input {tensor.name!r}, {flag}"
    is_values = tensor.is_shape_tensor
    rank = (shape[0] if shape else 1) if is_values else len(shape)
    kind = "values" if is_values else "dimensions"
    if any(len(dims) != rank for dims in (given.min, given.opt, given.max)):
        return [
            Problem(
                f"The sizes do not fit the input: it has {rank} {kind}.",
                where,
                _shape_text(tensor),
                _fix(tensor),
            )
        ]
    problems = []
    for index, (low, usual, high) in enumerate(zip(given.min, given.opt, given.max, strict=True)):
        if not low <= usual <= high or (low < 0 and not is_values):
            problems.append(
                Problem(
                    f"Dimension {index} goes from {low} over {usual} to {high}.",
                    where,
                    "min <= opt <= max, none negative",
                    "give the sizes in the order MIN:OPT:MAX",
                )
            )
        elif not is_values and shape[index] >= 0 and {low, usual, high} != {shape[index]}:
            problems.append(
                Problem(
                    f"Dimension {index} is fixed to {shape[index]} in the model.",
                    where,
                    _shape_text(tensor),
                    _fix(tensor),
                )
            )
    return problems


def _missing(tensor: Any) -> Problem:
    what = "values at run time decide shapes" if tensor.is_shape_tensor else "dimensions are dynamic"
    return Problem(
        f"No sizes are given for the input {tensor.name!r}, whose {what}.",
        f"input {tensor.name!r}, {_shape_text(tensor)}",
        "the smallest, usual and largest size",
        _fix(tensor),
    )


def _fix(tensor: Any) -> str:
    low, usual, high = suggest(tuple(tensor.shape), bool(tensor.is_shape_tensor))
    if tensor.is_shape_tensor:
        parts = (str(list(part) if tuple(tensor.shape) else part[0]) for part in (low, usual, high))
        flag = shlex.quote(f"{tensor.name}={':'.join(parts).replace(' ', '')}")
        return f"--values {flag}   (with your own values)"
    flag = shlex.quote(f"{tensor.name}={_joined(low)}:{_joined(usual)}:{_joined(high)}")
    return f"--shapes {flag}   (with your own sizes)"


def suggest(
    shape: tuple[int, ...], is_values: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Suggests (min, opt, max) to start from: a batch first, image sides last, or the values of a shape tensor."""
    if is_values:
        count = shape[0] if shape else 1
        return (1,) * count, (1,) * count, (8,) * count

    def pick(batch: int, side: int, length: int) -> tuple[int, ...]:
        return tuple(
            size if size >= 0 else batch if index == 0 else side if index >= 2 and len(shape) >= 4 else length
            for index, size in enumerate(shape)
        )

    return pick(1, 320, 1), pick(1, 640, 128), pick(8, 1280, 512)


def _shape_text(tensor: Any) -> str:
    return f"shape [{', '.join('?' if size < 0 else str(size) for size in tuple(tensor.shape))}]"


def _joined(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
