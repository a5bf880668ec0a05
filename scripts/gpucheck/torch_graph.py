"""Computes an ONNX graph in PyTorch, node by node, in one floating-point type: a framework's own run of that network.

For networks that come as ONNX files only. It covers the operators of convolutional networks as PaddlePaddle exports
them; the semantics are those of ONNX's operator specification. Shapes and indices are computed on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from torch import Tensor

from trtsmith.importers.dtypes import numpy_dtype

Attributes = Mapping[str, Any]
Compute = Callable[[Sequence[Any], Attributes], Any]

_NORM = "BatchNormalization"


class TorchGraph:
    """A graph with its weights on a device, floats in `dtype`. Call it with inputs by name; outputs by name come back.

    Parameters of BatchNormalization are float32 beside 16 bits, as those who train and run in them keep them: a variance of
    1e8, which the networks have, is infinite in float16.

    NotImplementedError for an operator, or a form of one, that is not covered.
    """

    def __init__(self, proto: onnx.ModelProto, device: str, dtype: torch.dtype) -> None:
        self._proto, self._device, self._dtype = proto, device, dtype
        unknown = sorted({node.op_type for node in proto.graph.node} - set(COMPUTE) - {"Constant", "Cast"})
        if unknown:
            raise NotImplementedError(f"PyTorch has no words here for {', '.join(unknown)}")
        self._wide = {n for node in proto.graph.node if node.op_type == _NORM for n in node.input[1:]}
        self._constants = {
            t.name: self._placed(numpy_helper.to_array(t), t.name) for t in proto.graph.initializer
        }

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        values: dict[str, Any] = {"": None, **self._constants}
        values.update({name: self._placed(array, name) for name, array in feeds.items()})
        with torch.inference_mode():
            for node in self._proto.graph.node:
                attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
                values[node.output[0]] = self._compute(
                    node, [values[name] for name in node.input], attributes
                )
        return {value.name: values[value.name] for value in self._proto.graph.output}

    def _compute(self, node: onnx.NodeProto, inputs: Sequence[Any], attributes: Attributes) -> Any:
        if node.op_type == "Constant":
            return self._placed(numpy_helper.to_array(attributes["value"]), node.output[0])
        if node.op_type == "Cast":
            wanted = numpy_dtype(attributes["to"])
            if wanted.kind == "f":
                return inputs[0].to(self._device, self._dtype)
            return inputs[0].to("cpu", torch.from_numpy(np.zeros(1, wanted)).dtype)
        return COMPUTE[node.op_type](inputs, attributes)

    def _placed(self, array: np.ndarray, name: str) -> Tensor:
        """Floats on the device in the type of the run; integers on the CPU."""
        if array.dtype.name == "bfloat16":  # PyTorch does not take it from numpy
            array = array.astype(np.float32)
        tensor = torch.from_numpy(np.array(array))  # a copy: PyTorch takes no read-only arrays
        if not tensor.is_floating_point():
            return tensor
        reduced = self._dtype in (torch.float16, torch.bfloat16)
        return tensor.to(self._device, torch.float32 if reduced and name in self._wide else self._dtype)


def _padding(attributes: Attributes, rank: int) -> list[int]:
    """Symmetric padding of the spatial axes. NotImplementedError for any other."""
    pads = attributes.get("pads", [0] * (2 * rank))
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or pads[:rank] != pads[rank:]:
        raise NotImplementedError("padding that is not symmetric")
    return list(pads[:rank])


def _conv(inputs: Sequence[Any], attributes: Attributes) -> Tensor:
    x, weight, *rest = inputs
    rank = x.dim() - 2
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    return convolve(
        x,
        weight,
        rest[0] if rest else None,
        stride=attributes.get("strides", [1] * rank),
        padding=_padding(attributes, rank),
        dilation=attributes.get("dilations", [1] * rank),
        groups=attributes.get("group", 1),
    )


def _conv_transpose(inputs: Sequence[Any], attributes: Attributes) -> Tensor:
    x, weight, *rest = inputs
    if "output_shape" in attributes or x.dim() != 4:
        raise NotImplementedError("ConvTranspose with output_shape, or of another rank than 4")
    return F.conv_transpose2d(
        x,
        weight,
        rest[0] if rest else None,
        stride=attributes.get("strides", [1, 1]),
        padding=_padding(attributes, 2),
        output_padding=attributes.get("output_padding", [0, 0]),
        groups=attributes.get("group", 1),
        dilation=attributes.get("dilations", [1, 1]),
    )


def _pool(inputs: Sequence[Any], attributes: Attributes, kind: str) -> Any:
    (x,) = inputs
    options = {"stride": attributes.get("strides", [1, 1]), "padding": _padding(attributes, 2)}
    options["ceil_mode"] = bool(attributes.get("ceil_mode", 0))
    if kind == "max":
        return F.max_pool2d(x, attributes["kernel_shape"], **options)
    counted = bool(attributes.get("count_include_pad", 0))
    return F.avg_pool2d(x, attributes["kernel_shape"], **options, count_include_pad=counted)


def _batch_norm(inputs: Sequence[Any], attributes: Attributes) -> Any:
    x, scale, bias, mean, variance = inputs
    return F.batch_norm(x, mean, variance, scale, bias, eps=attributes.get("epsilon", 1e-5))


def _clip(inputs: Sequence[Any], attributes: Attributes) -> Tensor:
    low, high = (
        inputs[i] if len(inputs) > i and inputs[i] is not None else attributes.get(name)
        for i, name in ((1, "min"), (2, "max"))
    )
    x: Tensor = inputs[0]
    x = x if low is None else torch.clamp(x, min=low)
    return x if high is None else torch.clamp(x, max=high)


def _reshape(inputs: Sequence[Any], attributes: Attributes) -> Any:
    x, shape = inputs
    sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(shape.tolist())]
    return x.reshape(sizes)


def _slice(inputs: Sequence[Any], attributes: Attributes) -> Any:
    x = inputs[0]
    names = ("starts", "ends", "axes", "steps")
    given: list[Any] = [attributes.get(name) for name in names] if len(inputs) == 1 else _lists(inputs[1:])
    starts, ends, axes, steps = (*given, None, None)[:4]
    ones = [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes or range(len(starts)), steps or ones, strict=True):
        if step < 1:
            raise NotImplementedError("Slice backwards")
        index = [slice(None)] * x.dim()
        index[axis] = slice(start, end, step)
        x = x[tuple(index)]
    return x


def _lists(tensors: Sequence[Any]) -> list[Any]:
    return [tensor if tensor is None else tensor.tolist() for tensor in tensors]


def _squeeze(inputs: Sequence[Any], attributes: Attributes) -> Any:
    axes = inputs[1].tolist() if len(inputs) > 1 else attributes.get("axes")
    return inputs[0].squeeze() if axes is None else inputs[0].squeeze(tuple(axes))


def _reduce_mean(inputs: Sequence[Any], attributes: Attributes) -> Any:
    axes = inputs[1].tolist() if len(inputs) > 1 else attributes.get("axes", list(range(inputs[0].dim())))
    return inputs[0].mean(dim=tuple(axes), keepdim=bool(attributes.get("keepdims", 1)))


def _resize(inputs: Sequence[Any], attributes: Attributes) -> Any:
    """Nearest by whole factors, the same for each kind of coordinates and rounding that is listed here."""
    x, sizes = inputs[0], inputs[3] if len(inputs) > 3 else None
    wanted = (
        sizes.tolist()
        if sizes is not None
        else [int(n * s) for n, s in zip(x.shape, inputs[2].tolist(), strict=True)]
    )
    whole = all(new % old == 0 for new, old in zip(wanted, x.shape, strict=True))
    form = (
        attributes.get("mode", b"nearest"),
        attributes.get("coordinate_transformation_mode", b"half_pixel"),
        attributes.get("nearest_mode", b"round_prefer_floor"),
    )
    if not whole or form not in ((b"nearest", b"asymmetric", b"floor"),):
        raise NotImplementedError(f"Resize by {form}")
    for axis, (new, old) in enumerate(zip(wanted, x.shape, strict=True)):
        x = x.repeat_interleave(new // old, dim=axis)
    return x


def _softmax(inputs: Sequence[Any], attributes: Attributes) -> Tensor:
    """Softmax of opset 13, and of earlier ones where the axis is the last, which is the same."""
    x, axis = inputs[0], attributes.get("axis", -1)
    if axis % x.dim() != x.dim() - 1:
        raise NotImplementedError("Softmax along another axis than the last")
    return torch.softmax(x, -1)


COMPUTE: Mapping[str, Compute] = {
    "Add": lambda x, a: x[0] + x[1],
    "Sub": lambda x, a: x[0] - x[1],
    "Mul": lambda x, a: x[0] * x[1],
    "Div": lambda x, a: (
        x[0] / x[1] if x[0].is_floating_point() else torch.div(x[0], x[1], rounding_mode="trunc")
    ),
    "Pow": lambda x, a: x[0] ** x[1],
    "Sqrt": lambda x, a: torch.sqrt(x[0]),
    "Relu": lambda x, a: torch.relu(x[0]),
    "Sigmoid": lambda x, a: torch.sigmoid(x[0]),
    "HardSigmoid": lambda x, a: torch.clamp(a.get("alpha", 0.2) * x[0] + a.get("beta", 0.5), 0, 1),
    "Clip": _clip,
    "Softmax": _softmax,
    "Identity": lambda x, a: x[0],
    "Concat": lambda x, a: torch.cat(list(x), dim=a["axis"]),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    _NORM: _batch_norm,
    "MaxPool": lambda x, a: _pool(x, a, "max"),
    "AveragePool": lambda x, a: _pool(x, a, "average"),
    "GlobalAveragePool": lambda x, a: x[0].mean(dim=tuple(range(2, x[0].dim())), keepdim=True),
    "MatMul": lambda x, a: torch.matmul(x[0], x[1]),
    "Transpose": lambda x, a: x[0].permute(a.get("perm", list(range(x[0].dim()))[::-1])),
    "Reshape": _reshape,
    "Shape": lambda x, a: torch.tensor(x[0].shape, dtype=torch.int64),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "ReduceMean": _reduce_mean,
    "Resize": _resize,
}
