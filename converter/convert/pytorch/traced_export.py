"""Exports a module with PyTorch's older exporter, which traces it, if torch.export refuses it.

A trace has the way that the example takes through the module's code. So it is used only where PyTorch's tracer has nothing
to say of the code, or says it of PyTorch's and torchvision's own, which are written to be traced: torchvision's detectors.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch.jit._trace import TracerWarning
from torch.utils._pytree import (
    keystr,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.convert.pytorch.exported_model import MODEL, ExportedModel
from trtsmith.converter.convert.pytorch.exported_program import (
    evaluating,
    example_arguments,
    parameter_names,
    positional_names,
    program_of,
    shapes_by_name,
    starred_shapes,
    unchanged,
)
from trtsmith.converter.convert.pytorch.onnx_program import LARGEST, array_of, export_program
from trtsmith.converter.convert.pytorch.program_edges import (
    NamedLeaf,
    calling_of,
    name_of_path,
    names_of_paths,
)
from trtsmith.converter.convert.pytorch.torch_problems import refuses_shapes
from trtsmith.converter.convert.pytorch.torch_source import TorchModule
from trtsmith.importers.problem import Problem
from trtsmith.importers.torch_ops import quiet

_OPSET = 17
_FOLDERS = tuple(
    f"{folder}{os.sep}"
    for package in ("torch", "torchvision")
    if (spec := find_spec(package)) is not None
    for folder in spec.submodule_search_locations or ()
)
"""Of packages whose code may ask for values while it is traced."""


def export_module(source: TorchModule, folder: Path, progress: Progress) -> ExportedModel:
    """Writes the module's ONNX model into the folder, with the first of PyTorch's exporters that takes it."""
    try:
        return export_program(program_of(source), folder, source.translations, progress)
    except ConversionError as error:
        module = isinstance(source.module, torch.nn.Module) and not source.translations
        refused = isinstance(error.__cause__, Exception) and refuses_shapes(error.__cause__)
        if not module or (refused and not _recurs(source.module)):
            raise
        progress("tracing the module with PyTorch's older exporter")
        found = _traced(source, folder)
        if found is not None:
            return found
        if problem := _array_problem(source):
            raise UsageError(problem) from error
        raise


def _recurs(module: torch.nn.Module) -> bool:
    """Whether it has a recurrent layer: torch.export fixes the length of a sequence, and the tracer does not."""
    return any(isinstance(part, torch.nn.RNNBase) for part in module.modules())


def _array_problem(source: TorchModule) -> Problem | None:
    """The problem of the first numpy array in an example, which some modules take; None without one."""
    args = example_arguments(source.args, source.kwargs)
    for path, leaf in tree_flatten_with_path({"args": args, "kwargs": dict(source.kwargs)})[0]:
        if isinstance(leaf, np.ndarray):
            what = f"the example has a numpy array, {leaf.dtype}{list(leaf.shape)}, in the place of a tensor"
            where = f"{keystr(path[:1])[2:-2]}{keystr(path[1:])}"
            narrow = ".float()" if leaf.dtype == np.float64 else ""
            return Problem(what, where, "a torch.Tensor", f"torch.from_numpy(array){narrow} makes one of it")
    return None


class _Flat(torch.nn.Module):
    """The module with only tensors as arguments and results."""

    def __init__(self, module: Any, arguments: Any) -> None:
        super().__init__()
        self.module = module
        self._leaves = tree_leaves(arguments)
        self._spec = tree_structure(arguments)
        self.result: Any = None

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = tree_unflatten(leaves, self._spec)
        self.result = self.module(*args, **kwargs)
        return tuple(leaf for leaf in tree_leaves(self.result) if isinstance(leaf, torch.Tensor))


def _traced(source: TorchModule, folder: Path) -> ExportedModel | None:
    """The traced export; None if PyTorch cannot write it, or the trace may lose something."""
    args, kwargs = example_arguments(source.args, source.kwargs), dict(source.kwargs)
    positional = positional_names(source.module, len(args))
    leaves = _tensors({**dict(zip(positional, args, strict=True)), **kwargs})
    inputs = {name_of_path(path): tensor for path, tensor in leaves}
    flat = _Flat(source.module, (args, kwargs))
    told: list[str] = []
    with (
        suppress(Exception),
        quiet(),
        evaluating(source.module, told),
        unchanged(source.module),
        torch.no_grad(),
    ):
        expected = [array_of(tensor) for tensor in flat(*(tensor.detach().clone() for _, tensor in leaves))]
        outputs = names_of_paths([path for path, _ in _tensors(flat.result)], inputs)
        names = iter(outputs)
        result = tree_map(
            lambda leaf: NamedLeaf(next(names)) if isinstance(leaf, torch.Tensor) else leaf, flat.result
        )
        shapes = starred_shapes(source.module, len(args), source.dynamic_shapes) or {}
        shapes = shapes_by_name(source.module, len(args), kwargs, shapes)
        bounds = {name_of_path(path): _bounds(shapes, path) for path, _ in leaves}
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", TracerWarning)
            torch.onnx.export(
                flat,
                tuple(inputs.values()),
                str(folder / MODEL),
                dynamo=False,
                opset_version=_OPSET,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_axes={name: list(ends) for name, ends in bounds.items() if ends},
            )
        if not outputs or any(map(_loses, seen)):
            return None
        _forget_output_sizes(folder / MODEL)
        told.append(
            "torch.export does not take the module: PyTorch's older exporter traced it with the example"
        )
        profile, endless = _profile(inputs, bounds)
        return ExportedModel(
            folder / MODEL,
            profile,
            {name: array_of(tensor) for name, tensor in inputs.items()},
            dict(zip(outputs, expected, strict=True)),
            calling_of(args, kwargs, parameter_names(source.module), list(inputs), outputs, lambda: result),
            endless,
            tuple(told),
        )
    return None


def _tensors(tree: Any) -> list[tuple[Any, Any]]:
    """The paths and tensors of a tree, in order."""
    return [(path, leaf) for path, leaf in tree_flatten_with_path(tree)[0] if isinstance(leaf, torch.Tensor)]


def _bounds(shapes: Mapping[str, Any], path: Sequence[Any]) -> dict[int, tuple[int, int | None]]:
    """(smallest, largest; None for no upper bound) by dynamic axis of the tensor at the path.

    shapes: dynamic_shapes by argument.
    """
    found: Any = shapes
    for step in path:
        key = getattr(step, "key", getattr(step, "idx", getattr(step, "name", None)))
        if found is None:
            return {}
        found = found.get(key) if isinstance(found, Mapping) else found[key]
    axes = found.items() if isinstance(found, Mapping) else enumerate(found or ())
    moving = {
        axis: size for axis, size in axes if not isinstance(size, int | None) and "STATIC" not in str(size)
    }
    ends = {axis: [getattr(size, end, None) for end in ("min", "max")] for axis, size in moving.items()}
    return {axis: (max(_whole(low) or 1, 1), _whole(high)) for axis, (low, high) in ends.items()}


def _whole(size: Any) -> int | None:
    return int(size) if isinstance(size, int) and size <= LARGEST else None


def _profile(
    inputs: Mapping[str, Any], bounds: Mapping[str, Mapping[int, tuple[int, int | None]]]
) -> tuple[dict[str, ShapeRange], dict[str, str]]:
    """The same result as onnx_program.profile_of."""
    profile, endless = {}, {}
    for name, ends in bounds.items():
        usual = tuple(inputs[name].shape)
        open_ = [axis for axis, (_, high) in ends.items() if high is None]
        if open_:
            endless[name] = ", ".join(map(str, open_))
        elif ends:
            low, high = (
                tuple(
                    choose(ends[axis][end] or 0, size) if axis in ends else size
                    for axis, size in enumerate(usual)
                )
                for end, choose in enumerate((min, max))
            )
            profile[name] = ShapeRange(low, usual, high)
    return profile, endless


def _forget_output_sizes(path: Path) -> None:
    """Clears the output sizes, as the tracer writes those of the example even where they depend on data."""
    model = onnx.load(path)
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.Clear()
    onnx.save(model, path)


def _loses(warning: warnings.WarningMessage) -> bool:
    """Whether the warning says that code outside PyTorch and torchvision took a value of the example as constant."""
    return issubclass(warning.category, TracerWarning) and not warning.filename.startswith(_FOLDERS)
