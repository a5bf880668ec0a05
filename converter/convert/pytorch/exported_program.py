"""Makes a torch.export.ExportedProgram from a module, and runs the module on its example."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.convert.pytorch.torch_problems import (
    decides_by_data,
    export_problem,
)
from trtsmith.converter.convert.pytorch.torch_source import TorchModule
from trtsmith.importers.torch_ops import quiet

_DIM = torch.export.Dim


@dataclass(frozen=True, eq=False)
class Program:
    """A program with its example. run: computes PyTorch's outputs from (args, kwargs).

    parameters: names of the positional parameters, as far as they are known. name: what messages call it.
    """

    exported: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    run: Callable[..., Any]
    parameters: tuple[str, ...]
    name: str
    warnings: tuple[str, ...] = ()


def program_of(source: TorchModule) -> Program:
    """Exports the module as a program. Raises UsageError for an object that is no module or has no example, and
    ConversionError if PyTorch cannot export it.
    """
    module = source.module
    if isinstance(module, torch.export.ExportedProgram):
        return saved_program(module, source, str(source))
    if not isinstance(module, torch.nn.Module):
        raise _no_module(module)
    args = example_arguments(source.args, source.kwargs)
    kwargs = dict(source.kwargs)
    told: list[str] = []
    with evaluating(module, told), torch.no_grad(), quiet():
        exported = _exported(module, args, kwargs, source, told)

    def run(*given: Any, **named: Any) -> Any:
        with evaluating(module, []), unchanged(module):
            return module(*given, **named)

    return Program(exported, args, kwargs, run, parameter_names(module), str(source), tuple(told))


def _exported(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], source: TorchModule, told: list[str]
) -> Any:
    """The program of torch.export; with strict=True, through bytecode, if running the module fails, as in
    torch.onnx.export.
    """

    shapes = starred_shapes(module, len(args), source.dynamic_shapes)
    example = _without_ones(args, kwargs, module, shapes)

    def exported(*, strict: bool) -> Any:
        with redirect_stderr(StringIO()) as said:  # PyTorch prints the graph up to an error
            found = torch.export.export(module, *example, dynamic_shapes=shapes, strict=strict)
        sys.stderr.write(said.getvalue())
        return found

    try:
        return exported(strict=False)
    except Exception as error:  # PyTorch's, or of the module's own code
        if decides_by_data(error):
            with suppress(Exception), _constant_integers(module) as names:
                if names:
                    found = exported(strict=False)
                    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                    told.append(f"integer buffers are constants of the program: {names[0]}{more}")
                    return found
            # strict=True takes minutes to say the same of a detector
            raise ConversionError(export_problem(error, str(source))) from error
        with suppress(Exception):
            found = exported(strict=True)
            told.append("torch.export takes the module only with strict=True")
            return found
        raise ConversionError(export_problem(error, str(source))) from error


def _without_ones(
    args: Sequence[Any], kwargs: Mapping[str, Any], module: Any, shapes: Any
) -> tuple[Any, Any]:
    """The example with two elements along dynamic axes of size 1, as torch.export fixes sizes of 1.

    Unchanged where the shapes do not fit the arguments: torch.export says what is wrong.
    """
    with suppress(Exception):
        by_name = shapes_by_name(module, len(args), kwargs, shapes)
        names = positional_names(module, len(args))
        longer = [_lengthened(value, by_name.get(name)) for name, value in zip(names, args, strict=True)]
        return tuple(longer), {name: _lengthened(value, by_name.get(name)) for name, value in kwargs.items()}
    return args, kwargs


def _lengthened(value: Any, spec: Any) -> Any:
    if spec is None:
        return value
    if isinstance(value, torch.Tensor):
        for axis, dim in spec.items() if isinstance(spec, Mapping) else enumerate(spec):
            fixed = isinstance(dim, int) or any(dim is one for one in (None, _DIM.STATIC, _DIM.AUTO))
            if not fixed and value.shape[axis] == 1:
                value = value.repeat_interleave(2, axis)
        return value
    if isinstance(value, Mapping):
        return {name: _lengthened(one, spec.get(name)) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_lengthened(*pair) for pair in zip_longest(value, spec))
    return value


def saved_program(exported: Any, source: TorchModule, name: str) -> Program:
    """Takes a program that is already exported, with its own example unless another is given."""
    if source.dynamic_shapes is not None:
        raise UsageError(
            "dynamic_shapes are given for a program that is exported already",
            name,
            "a torch.nn.Module, or the program without dynamic_shapes",
            "give dynamic_shapes to torch.export.export, or convert the module itself",
        )
    own = exported.example_inputs
    if source.args is None and not own:
        raise UsageError(
            "the program has no example inputs",
            name,
            "example inputs, which give the usual sizes and the values for the comparison",
            "give them as `args`, or save a program that still has its example_inputs",
        )
    args, kwargs = (
        own if source.args is None else (example_arguments(source.args, source.kwargs), dict(source.kwargs))
    )
    signature = exported.module_call_graph[0].signature if exported.module_call_graph else None
    names = tuple(getattr(signature, "forward_arg_names", None) or ())[: len(args)]
    return Program(exported, tuple(args), kwargs, exported.module(), names, name)


def computed(program: Program) -> Any:
    """Computes PyTorch's own outputs for the example. Raises whatever PyTorch raises."""
    args, kwargs = tree_map(_copy, (program.args, dict(program.kwargs)))  # a module may write to its inputs
    with torch.no_grad(), quiet():
        return program.run(*args, **kwargs)


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def example_arguments(args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns example arguments as a tuple; a single tensor or array becomes a tuple of one.

    kwargs: those by name, which may be all. UsageError where there are none.
    """
    if args is None and kwargs:
        return ()
    if args is None:
        raise UsageError(
            "the module has no example inputs",
            "args",
            "a tuple of example arguments: torch.export traces the module with them",
            "trtsmith.convert(module, (torch.rand(1, 3, 224, 224),), output=...)",
        )
    if isinstance(args, (torch.Tensor, np.ndarray)):
        return (args,)
    if not isinstance(args, (tuple, list)):
        raise UsageError(
            f"the example arguments are of the type {type(args).__name__}",
            "args",
            "a tuple of what the module's forward takes",
            "write (x,) for one argument",
        )
    return tuple(args)


def _no_module(given: Any) -> UsageError:
    if isinstance(given, type) and issubclass(given, torch.nn.Module):
        what = f"the class {given.__name__} is given in the place of a module"
        return UsageError(what, "model", "an instance of the class", f"{given.__name__}(...) makes one")
    if isinstance(given, Mapping):  # as torch.load gives for a checkpoint
        return UsageError(
            f"a mapping, of the type {type(given).__name__}, is given in the place of a module",
            "model",
            "a torch.nn.Module: weights have no graph",
            "build the module that the weights are of, load them with its load_state_dict, and give the module",
        )
    fix = "write a torch.nn.Module whose forward calls it" if callable(given) else "give the module itself"
    return UsageError(
        f"an object of the type {type(given).__module__}.{type(given).__qualname__} cannot be converted",
        "model",
        "a torch.nn.Module or torch.export.ExportedProgram; a path, an onnx.ModelProto, or its bytes",
        fix,
    )


@contextmanager
def evaluating(module: Any, told: list[str]) -> Iterator[None]:
    """Puts the module into eval mode inside the block, as an engine is for inference, and restores it afterwards."""
    training = [part for part in module.modules() if part.training]
    changed = [part for part in training if _depends_on_mode(part)]
    if changed:
        kinds = ", ".join(sorted({type(part).__name__ for part in changed}))
        told.append(f"the module was in training mode: {kinds} compute as in eval mode in the engine")
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def unchanged(module: Any) -> Iterator[None]:
    """Restores buffers that the module writes inside the block."""
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


@contextmanager
def _constant_integers(module: Any) -> Iterator[list[str]]:
    """Reads scalar integer buffers as constants inside the block, and yields their names. Writing to one raises.

    torch.export takes a buffer for data. EnCodec and Mimi keep strides in buffers and compute padding from them, which would
    then depend on data; of a constant tensor it knows the value.
    """
    changed = []
    names = []
    for path, part in module.named_modules():
        kept = {
            name: buffer
            for name, buffer in part._buffers.items()
            if buffer is not None and buffer.shape == () and buffer.dtype in (torch.int32, torch.int64)
        }
        if not kept:
            continue
        own = type(part)
        constants = {
            name: property(partial(_constant, buffer.item(), buffer.dtype)) for name, buffer in kept.items()
        }
        changed.append((part, own, dict(part._buffers)))
        names += [f"{path}.{name}".lstrip(".") for name in kept]
        part.__class__ = type(own.__name__, (own,), {"__module__": own.__module__, **constants})
        for name in kept:
            del part._buffers[name]
    try:
        yield names
    finally:
        for part, own, buffers in changed:
            part.__class__ = own
            part._buffers.clear()
            part._buffers.update(buffers)


def _constant(value: int, dtype: torch.dtype, part: Any) -> torch.Tensor:
    del part
    return torch.tensor(value, dtype=dtype)


def _depends_on_mode(part: Any) -> bool:
    nn = torch.nn
    kinds = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd, nn.RReLU)
    return isinstance(part, kinds)


def parameter_names(module: Any) -> tuple[str, ...]:
    """Returns names of forward's positional parameters, up to the first *args."""
    names = []
    for parameter in _parameters(module):
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            break
        names.append(parameter.name)
    return tuple(names)


def star_name(module: Any) -> str:
    """Returns the name of forward's *args; "" without one."""
    return next((one.name for one in _parameters(module) if one.kind == one.VAR_POSITIONAL), "")


def _parameters(module: Any) -> Sequence[inspect.Parameter]:
    try:
        return tuple(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        return ()


def positional_names(module: Any, count: int) -> list[str]:
    """Returns the names of this many positional arguments: parameters, then args_0, args_1, ... for *args."""
    return [*parameter_names(module), *(f"args_{index}" for index in range(count))][:count]


def shapes_by_name(module: Any, count: int, kwargs: Mapping[str, Any], shapes: Any) -> dict[str, Any]:
    """Returns dynamic_shapes by argument, from the form of `starred_shapes`; *args under their `positional_names`."""
    names, first, star = positional_names(module, count), len(parameter_names(module)), star_name(module)
    if not isinstance(shapes, Mapping):
        shapes = dict(
            zip([*names[:first], *([star] if names[first:] else []), *kwargs], shapes, strict=False)
        )
    return {**shapes, **dict(zip(names[first:], shapes.get(star) or (), strict=False))}


def starred_shapes(module: Any, count: int, shapes: Any) -> Any:
    """Returns dynamic_shapes in torch.export's form, with the shapes of *args in one tuple; users may give them one by one.

    A dimension may be a name, as torch.onnx.export takes it. count: of positional arguments.
    """
    shapes = _with_dims(shapes, {})
    star, first = star_name(module), len(parameter_names(module))
    if not star or shapes is None:
        return shapes
    if isinstance(shapes, Mapping):
        rest = shapes.get(star)
        return {**shapes, star: tuple(rest)} if isinstance(rest, list) else shapes
    last = shapes[first] if len(shapes) == first + 1 else None
    if isinstance(last, (tuple, list)) and len(last) == count - first and all(map(_is_of_tensors, last)):
        return (*shapes[:first], tuple(last))
    return (*shapes[:first], tuple(shapes[first:])) if len(shapes) == count else shapes


def _with_dims(shapes: Any, dims: dict[str, Any]) -> Any:
    if isinstance(shapes, str):
        return dims.setdefault(shapes, torch.export.Dim(shapes))
    if isinstance(shapes, Mapping):
        return {name: _with_dims(one, dims) for name, one in shapes.items()}
    return type(shapes)(_with_dims(one, dims) for one in shapes) if type(shapes) in (list, tuple) else shapes


def _is_of_tensors(shape: Any) -> bool:
    """Whether the entry describes arguments rather than one axis."""
    return shape is None or isinstance(shape, (Mapping, tuple, list))
