"""Describes how a library's network is made and exported, and writes the Python program for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DYNAMO, LEGACY, OWN, MODULE = "dynamo", "legacy", "own", "module"
"""PyTorch's exporters, the library's own, and trtsmith's, which is given the module."""


@dataclass(frozen=True)
class InputAxis:
    """An axis of an input. name: "" if the size is fixed. A batch may be 1 to twice the size, a sequence half to twice,
    others up to twice.
    """

    name: str
    size: int

    @property
    def profile(self) -> tuple[int, int, int]:
        if not self.name:
            return (self.size,) * 3
        least = {"batch": 1, "sequence": self.size // 2}.get(self.name, self.size)
        return least, self.size, 2 * self.size


@dataclass(frozen=True)
class InputTensor:
    """An input. what: "" for float32 in 0..1, "<N" for int64 below N, "=N" for int64 equal to N, "bool" for true."""

    axes: tuple[InputAxis, ...]
    what: str

    @classmethod
    def of(cls, text: str) -> InputTensor:
        """Parses a table entry: "batch=2 3 height=64 width=64", "batch=2 sequence=16 <100"."""
        words = text.split()
        what = words.pop() if not words[-1][-1].isdigit() or words[-1][0] in "<=" else ""
        pairs = (word.rpartition("=") for word in words)
        return cls(tuple(InputAxis(name, int(size)) for name, _, size in pairs), what)

    @property
    def dynamic(self) -> dict[int, str]:
        return {i: axis.name for i, axis in enumerate(self.axes) if axis.name}

    def program(self) -> str:
        sizes = ", ".join(str(axis.size) for axis in self.axes)
        if self.what.startswith("<"):
            return f"torch.randint({self.what[1:]}, ({sizes},))"
        if self.what.startswith("="):
            return f"torch.full(({sizes},), {self.what[1:]})"
        return f"torch.ones({sizes}, dtype=torch.bool)" if self.what else f"torch.rand({sizes})"


@dataclass(frozen=True)
class Architecture:
    """A network of a library.

    name:      as people call it. about: what it is for, in two or three words. library: the distribution on PyPI.
    make:      the expression that makes the module; the modules that it names are imported.
    inputs:    by name, as InputTensor.of reads them, in the order of the module's arguments.
    call:      the expression of `model` and the inputs that is exported; "": the module is called with the inputs.
    exporters: of PyTorch's. own: the expression that exports with the library's exporter, "": it has none.
    """

    name: str
    about: str
    library: str
    make: str
    inputs: Mapping[str, str]
    call: str = ""
    exporters: tuple[str, ...] = (DYNAMO, LEGACY)
    own: str = ""
    tensors: Mapping[str, InputTensor] = field(init=False)

    def __post_init__(self) -> None:
        tensors = {name: InputTensor.of(text) for name, text in self.inputs.items()}
        object.__setattr__(self, "tensors", tensors)

    @property
    def all_exporters(self) -> tuple[str, ...]:
        return (*self.exporters, *([OWN] if self.own else ()), MODULE)

    def build_program(self, exporter: str) -> str:
        """Statements that leave `model` and `inputs`."""
        make = self.own.rpartition(".export(")[0] if exporter == OWN else f"{self.make}.eval()"
        modules = sorted(
            {found.rstrip(".") for found in re.findall(r"(?<![\w.)\]'\"-])(?:[a-z_]\w*\.)+", make)}
        )
        lines = [f"import {module}" for module in dict.fromkeys(["torch", *modules])]
        lines += ["torch.manual_seed(0)", f"model = {make}"]
        if self.call and exporter != OWN:
            lines += [
                "class Wrapped(torch.nn.Module):",
                "    def __init__(self, model):",
                "        super().__init__()",
                "        self.model = model",
                f"    def forward(self, {', '.join(self.inputs)}):",
                "        model = self.model",
                f"        return {self.call}",
                "model = Wrapped(model).eval()",
            ]
        made = ", ".join(f'"{name}": {tensor.program()}' for name, tensor in self.tensors.items())
        return "\n".join([*lines, f"inputs = {{{made}}}"])

    def export_program(self, exporter: str, *, dynamic: bool = True) -> str:
        """The statement that exports `model` to model.onnx, or an expression for the path of the library's own file."""
        if exporter == OWN:
            return f"path = model.export({self.own.rpartition('.export(')[2]}"
        automatic = "".join(
            f"{{{_axes(t, 'torch.export.Dim.AUTO')}}}, " for t in self.tensors.values()
        ).rstrip()
        shapes = f", dynamic_shapes=({automatic}))" if dynamic else ")"
        if exporter == MODULE:
            call = 'trtsmith.check(model, tuple(inputs.values()), save_onnx="model.onnx"'
            return f"import trtsmith\n{call}{shapes}"
        names = ", ".join(f'"{name}"' for name in self.inputs)
        call = f'torch.onnx.export(model, tuple(inputs.values()), "model.onnx", input_names=[{names}]'
        if exporter == DYNAMO:
            return f"{call}, dynamo=True, external_data=False{shapes}"
        axes = ", ".join(f'"{name}": {{{_axes(t)}}}' for name, t in self.tensors.items() if t.dynamic)
        return f"{call}, dynamo=False, dynamic_axes={{{axes}}})" if dynamic else f"{call}, dynamo=False)"


def _axes(tensor: InputTensor, value: str = "") -> str:
    return ", ".join(f"{axis}: {value or _quoted(name)}" for axis, name in tensor.dynamic.items())


def _quoted(name: str) -> str:
    return f'"{name}"'


def family(library: str, rows: Mapping[str, tuple[Any, ...]], **same: Any) -> tuple[Architecture, ...]:
    """The networks of one library. rows: by name, Architecture's fields after `library`, `about` first; same: for all."""
    return tuple(Architecture(name, about, library, *more, **same) for name, (about, *more) in rows.items())


def image(size: int = 64, name: str = "x") -> dict[str, str]:
    """A batch of square images of dynamic size."""
    return {name: f"batch=2 3 height={size} width={size}"}


def fixed_image(size: int = 64, name: str = "x", channels: int = 3) -> dict[str, str]:
    return {name: f"batch=2 {channels} {size} {size}"}


def tokens(bound: int = 100, *masks: str) -> dict[str, str]:
    """Word indices, and masks of ones."""
    return {"input_ids": f"batch=2 sequence=16 <{bound}"} | dict.fromkeys(masks, "batch=2 sequence=16 =1")
