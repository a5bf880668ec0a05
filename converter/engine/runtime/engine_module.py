"""Calls an engine as the PyTorch module from which it was built: torch tensors or numpy arrays in, and the same out.

    import trtsmith

    engine = trtsmith.load("net.plan")
    y = engine(x)

PyTorch is imported for its own tensors only.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.torch_arrays import from_torch, to_torch
from trtsmith.converter.engine.bundle.manifest import items, mapping, read_manifest, text
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.runtime.call_structure import (
    CallStructure,
    filled,
    leaves_of,
    parse_structure,
    taken,
)
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.tensors import TensorSpec
from trtsmith.converter.rewrite.types import IoType
from trtsmith.importers.problem import Problem

_MOST_SESSIONS = 4
"""Streams whose execution contexts are kept: a program has one or two on which it calls an engine."""


class ConvertedEngine(Protocol):
    """The part of a result of `convert` that running the engine needs."""

    @property
    def engine(self) -> Path | bytes:
        """Its file, or its bytes."""

    @property
    def libraries(self) -> tuple[Path, ...]:
        """The libraries to load before the engine."""

    @property
    def calling(self) -> Mapping[str, Any] | None:
        """The calling convention of the module."""

    @property
    def built(self) -> Any:
        """The TensorRT that built the engine."""

    @property
    def plan(self) -> Any:
        """The plugins that the engine needs."""

    @property
    def rewritten(self) -> Any:
        """The new types of inputs and outputs."""


@dataclass(frozen=True)
class Calling:
    """The calling convention of a module. args, kwargs: their structures. parameters: names of the positional ones, at least
    the first. result: its structure; None if only names of outputs are known.
    """

    args: tuple[CallStructure, ...]
    kwargs: Mapping[str, CallStructure]
    parameters: tuple[str, ...]
    result: CallStructure | None

    @staticmethod
    def parse(value: Any) -> Calling:
        """Reads the convention from a manifest. Raises ValueError, TypeError or LookupError for an invalid one."""
        given = mapping(value)
        return Calling(
            tuple(map(parse_structure, items(given["args"]))),
            {text(name): parse_structure(part) for name, part in mapping(given["kwargs"]).items()},
            tuple(map(text, items(given["parameters"]))),
            parse_structure(given["result"]),
        )

    @staticmethod
    def of_engine(inputs: Sequence[str]) -> Calling:
        """Returns the calling convention of an engine that was not a module: its inputs in order, or by name."""
        return Calling(tuple({"tensor": name} for name in inputs), {}, tuple(inputs), None)

    def tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yields (input's name, tensor) of one call. ValueError names an argument that does not fit."""
        left = dict(kwargs)
        if len(args) > len(self.args):
            raise ValueError(f"{len(args)} positional arguments are given, and there are {len(self.args)}")
        for index, structure in enumerate(self.args):
            name = self.parameters[index] if index < len(self.parameters) else ""
            if index < len(args):
                yield from taken(structure, args[index], name or f"argument {index}")
            else:
                yield from self._named(name or f"argument {index}", structure, left)
        for name, structure in self.kwargs.items():
            yield from self._named(name, structure, left)
        if left:
            raise ValueError(f"there is no argument {next(iter(left))!r}")

    @staticmethod
    def _named(name: str, structure: CallStructure, left: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        if name in left:
            yield from taken(structure, left.pop(name), name)
        elif any(True for _ in leaves_of(structure)):  # a constant may be left out: it is in the engine
            raise ValueError(f"the argument {name!r} is missing")


class Engine:
    """An engine that is called as the module from which it was built, on torch tensors or numpy arrays.

    The outputs have the module's structure: tuples, lists, dicts and named tuples of new tensors; of an engine that was
    built from an ONNX model, the only output's tensor, or a dict by name. Tensors on the GPU are used where they are, work
    is queued in PyTorch's current stream, and nothing waits for it. Tensors in host memory and numpy arrays are copied to
    the GPU, and the outputs come back as the same kind. Arguments that were no tensors are constants of the engine: they
    may be left out, or must be what they were. One thread uses it at a time.

    runner: the Runner behind it, with `info` of inputs, outputs and profiles. device: the GPU's name in PyTorch.

    >>> import torch, trtsmith
    >>> engine = trtsmith.load("poses.plan")  # doctest: +SKIP
    >>> engine(torch.eye(4, device="cuda")[None])["inverse"].shape  # doctest: +SKIP
    torch.Size([1, 4, 4])
    """

    def __init__(
        self,
        runner: Runner,
        calling: Calling | None = None,
        *,
        io_types: Sequence[IoType] = (),
        device: str = "cuda:0",
    ) -> None:
        """See `load`, which finds all of these."""
        self.runner = runner
        self.device = device
        self._inputs = {spec.name: spec for spec in runner.info.inputs}
        self._calling = calling or Calling.of_engine(tuple(self._inputs))
        self._types = {io.name: io for io in io_types}
        self._sessions: OrderedDict[int, Any] = OrderedDict()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives for these arguments. UsageError for what does not fit the engine."""
        try:
            given = dict(self._calling.tensors(args, kwargs))
        except ValueError as error:
            raise UsageError(self._wrong_call(str(error))) from error
        feeds = {name: value for name, value in given.items() if name in self._inputs}
        tensor_type = getattr(sys.modules.get("torch"), "Tensor", np.ndarray)
        kind = tensor_type if any(isinstance(value, tensor_type) for value in feeds.values()) else np.ndarray
        others = [self._other_kind(n, value) for n, value in feeds.items() if not isinstance(value, kind)]
        if others:
            raise UsageError(others)
        outputs: Mapping[str, Any] = self.runner(feeds) if kind is np.ndarray else self._on_tensors(feeds)
        if self._calling.result is not None:
            return filled(self._calling.result, outputs)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def _on_tensors(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """New tensors, where those of `feeds` are. UsageError for what does not fit the engine."""
        import torch
        from torch.utils.dlpack import from_dlpack

        in_host_memory = all(str(value.device) == "cpu" != self.device for value in feeds.values())
        where = "cpu" if in_host_memory else self.device
        problems = [p for name, value in feeds.items() for p in self._problems(name, value, where)]
        if problems:
            raise UsageError(problems)
        if in_host_memory:
            arrays = self.runner({name: from_torch(value) for name, value in feeds.items()})
            return {name: to_torch(array) for name, array in arrays.items()}
        with torch.no_grad():
            given = {name: self._prepared(name, value) for name, value in feeds.items()}
            made = self._session().infer(given, synchronise=False)
            return {name: self._of_model(name, from_dlpack(tensor)) for name, tensor in made.items()}

    def close(self) -> None:
        """Releases the GPU's memory."""
        self._sessions.clear()
        self.runner.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _session(self) -> Any:
        """The session of PyTorch's current stream."""
        import torch

        stream = torch.cuda.current_stream(self.device) if self.device.startswith("cuda") else None
        handle = stream.cuda_stream if stream is not None else 0
        # Nothing can be captured in the default stream. The session that it then has of its own is ordered with it by what
        # inputs and outputs tell of theirs: it waits for the inputs, and PyTorch's stream for the outputs.
        own = handle == 0 and self.runner.cuda_graph
        session = self._sessions.pop(handle, None) or self.runner.session(stream=None if own else stream)
        self._sessions[handle] = session
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _prepared(self, name: str, tensor: Any) -> Any:
        """The tensor as the engine takes it: itself, wherever it can be."""
        import torch

        io = self._types.get(name)
        if io is not None:
            tensor = tensor.to(getattr(torch, io.after))
        return tensor.detach().contiguous()

    def _of_model(self, name: str, tensor: Any) -> Any:
        """A tensor of its own, in the model's type: the session's memory is written again by the next call."""
        import torch

        io = self._types.get(name)
        before = getattr(torch, io.before, None) if io is not None else None
        return tensor.clone() if before is None or before == tensor.dtype else tensor.to(before)

    def _other_kind(self, name: str, value: Any) -> Problem:
        return Problem(
            f"the input {name!r} is a {type(value).__module__}.{type(value).__name__}",
            f"input {name!r}",
            f"a numpy array or a torch.Tensor, the same kind for all inputs: {self._inputs[name]}",
            f"numpy.asarray(value, {self._model_type(name)!r}), or torch.as_tensor(value); engine.runner takes arrays of "
            "CuPy and others",
        )

    def _model_type(self, name: str) -> str:
        """The input's type in the model, which may be another in the engine."""
        io = self._types.get(name)
        return io.before if io is not None else self._inputs[name].dtype

    def _problems(self, name: str, value: Any, device: str) -> Iterator[Problem]:
        spec, where, wanted = self._inputs[name], f"input {name!r}", self._model_type(name)
        if str(value.device) != device and not spec.is_shape_tensor:
            yield Problem(
                f"the tensor of the input {name!r} is on {value.device}",
                where,
                f"a tensor on {device}, on which the engine is, or all tensors in host memory",
                f"x.to('{device}'): trtsmith copies silently only if no tensor is on a GPU",
            )
        if str(value.dtype) != f"torch.{wanted}":
            yield Problem(
                f"the tensor of the input {name!r} is of the type {str(value.dtype).removeprefix('torch.')}",
                where,
                f"{wanted}, as the module was exported with",
                f"x.to(torch.{wanted})",
            )
        yield from self._shape_problems(spec, tuple(value.shape))

    def _shape_problems(self, spec: TensorSpec, shape: tuple[int, ...]) -> Iterator[Problem]:
        """A number of dimensions that is not the engine's: its sizes are the session's to judge."""
        if len(shape) != len(spec.shape):
            yield Problem(
                f"the tensor of the input {spec.name!r} has the shape {list(shape)}",
                f"input {spec.name!r}",
                f"the engine's {spec}",
                "give a tensor of that many dimensions; trailing and leading dimensions of 1 count",
            )

    def _wrong_call(self, why: str) -> Problem:
        names = [
            self._calling.parameters[i] if i < len(self._calling.parameters) else f"argument {i}"
            for i in range(len(self._calling.args))
        ]
        return Problem(
            f"the engine's arguments differ from its module's: {why}",
            "the call of the engine",
            f"({', '.join([*names, *(f'{name}=' for name in self._calling.kwargs)])}), nested as in the example",
            "call it as the module was called when it was converted",
        )


def load(
    engine: str | os.PathLike[str] | ConvertedEngine,
    *,
    plugins: Sequence[str | Path] = (),
    flavour: str = "auto",
    runtime_cache: str | Path | None = None,
    cuda_graph: bool = False,
    device: int = 0,
) -> Engine:
    """The Engine of an engine's file, or of what `convert` returned: `trtsmith.load`, which says the arguments."""
    where = f"cuda:{device}"
    if isinstance(engine, (bytes, bytearray)):
        what, expected = "the bytes of an engine are given", "its file, or what `convert` returned"
        raise UsageError(
            what, "engine", expected, "give the whole result: trtsmith.load(done), not done.engine"
        )
    if not isinstance(engine, (str, os.PathLike)) and not hasattr(engine, "engine"):
        what, expected = f"{type(engine).__name__} is no engine", "its file, or what `convert` returned"
        fix = "convert it first: trtsmith.load(trtsmith.convert(model, (x,))), with example inputs x of a module"
        raise UsageError(what, "engine", expected, fix)
    given = engine if isinstance(engine, (str, os.PathLike)) else engine.engine
    if isinstance(given, bytes):
        assert not isinstance(engine, (str, os.PathLike))
        io_types = engine.rewritten.io_types
        runner = Runner.open(
            given,
            plugins=[*engine.libraries, *plugins],
            flavour=engine.built.flavour if flavour == "auto" else flavour,
            io_types=io_types,
            runtime_cache=runtime_cache,
            cuda_graph=cuda_graph,
            embedded_plugins=not engine.libraries and bool(engine.plan.plugins),
            device=device,
        )
        return Engine(runner, _calling(engine.calling), io_types=io_types, device=where)
    path = Path(given)
    io_types = request_for(path, tuple(map(Path, plugins)), flavour).io_types
    calling = read_manifest(path, lambda document: _calling(document.get("calling")))
    runner = Runner.load(
        path,
        plugins=plugins,
        flavour=flavour,
        runtime_cache=runtime_cache,
        cuda_graph=cuda_graph,
        device=device,
    )
    return Engine(runner, calling, io_types=io_types, device=where)


def _calling(value: Any) -> Calling | None:
    return None if value is None else Calling.parse(value)
