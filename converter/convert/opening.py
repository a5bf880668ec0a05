"""Stage: opens the user's model: an ONNX model, or a PyTorch program that is exported first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from trtsmith.converter.base.arrays import ArraysOf
from trtsmith.converter.base.errors import UsageError, problems_named
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.base.output_file import check_report
from trtsmith.converter.base.own_files import EXPORTED
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress, silent
from trtsmith.converter.convert.pytorch.exported_model import ExportedModel, read_exported
from trtsmith.converter.convert.pytorch.torch_source import (
    PROGRAM_SUFFIX,
    TorchFactory,
    TorchFile,
    TorchModule,
    TorchSource,
)
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.model.save import save_marked
from trtsmith.importers.problem import Problem

GivenModel = ModelSource | TorchSource
"""A model file, the bytes of one, or what PyTorch makes a model of."""


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model with the data from its source: profile, example, and calling convention.

    profile, endless: of a module's dynamic dimensions; endless: axes by input that have no largest size.
    inputs, expected: an example, and PyTorch's own outputs for it; None where there are none.
    calling:          how the module is called; None of an ONNX model.
    """

    model: Model
    profile: Mapping[str, ShapeRange] = field(default_factory=dict)
    inputs: Mapping[str, np.ndarray] | None = None
    expected: Mapping[str, np.ndarray] | None = None
    calling: Mapping[str, Any] | None = None
    endless: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def shapes(self, given: Mapping[str, ShapeRange]) -> dict[str, ShapeRange]:
        """Returns the profile of the conversion: the user's shapes, and the module's for other inputs.

        UsageError for dimensions without an upper end.
        """
        problems = [
            Problem(
                f"the input {name!r} has dimensions without a largest size (axes {axes})",
                f"input {name!r}",
                "a range for every dynamic dimension",
                f"torch.export.Dim(name, min=..., max=...) in dynamic_shapes, or shapes: {name}=MIN:OPT:MAX",
            )
            for name, axes in self.endless.items()
            if name not in given
        ]
        if problems:
            raise UsageError(problems)
        return {**self.profile, **given}


def has_example(source: GivenModel) -> bool:
    """Tells whether the model comes with example inputs, as PyTorch models do."""
    return isinstance(source, TorchSource) or (isinstance(source, Path) and source.suffix == PROGRAM_SUFFIX)


def name_of(source: GivenModel) -> str:
    """Returns the name of the model's file; without a file, the model's name in messages."""
    path = source.path if isinstance(source, TorchFile) else source
    return path.name if isinstance(path, Path) else str(source)


def typed(source: GivenModel) -> str:
    """Returns the model as one types it in a command; MODEL for one that is only in memory."""
    return quote(str(source)) if isinstance(source, Path | TorchFile | TorchFactory) else "MODEL"


def open_model(source: GivenModel, progress: Progress | None = None, *, force: bool = False) -> OpenedModel:
    """Opens the model, mapped. Exports a PyTorch model first; the exported file is removed unless it is to be saved.

    force: whether it may be saved over any file.

    TrtsmithError as load_model raises them, and for what PyTorch cannot export.
    """
    tell = progress or silent
    if isinstance(source, Path) and source.suffix == PROGRAM_SUFFIX:
        source = TorchFile(source)
    if not isinstance(source, TorchSource):
        return OpenedModel(load_model(source))
    own = getattr(source, "path", None)
    check_report(source.save, (own,), "--save-onnx", "the ONNX model", EXPORTED, force=force)
    with ScratchFolder("export") as name:
        exported = _exported(source, Path(name), tell)
        with problems_named(exported.model, source):
            model = load_model(exported.model)
        if source.save is not None:
            save_marked(model, source.save, EXPORTED)
            model = load_model(source.save)
        return OpenedModel(
            model,
            exported.profile,
            ArraysOf("the module's example", exported.inputs),
            None if exported.expected is None else ArraysOf("PyTorch's", exported.expected),
            exported.calling,
            exported.endless,
            exported.warnings,
        )


def _exported(source: TorchSource, folder: Path, progress: Progress) -> ExportedModel:
    """Exports in this process if the module is here, else in a child process."""
    if isinstance(source, TorchModule):
        _need_pytorch(str(source))
        # PyTorch takes seconds to import, and most models are ONNX files
        from trtsmith.converter.convert.pytorch.traced_export import export_module
        from trtsmith.importers.torch_ops import define_known

        define_known()
        progress("tracing the module with torch.export")
        return export_module(source, folder, progress)
    from trtsmith.converter.convert.pytorch.export_in_child import export_in_child

    export_in_child(source, folder, progress)
    return read_exported(folder)


def _need_pytorch(name: str) -> None:
    from importlib.util import find_spec

    missing = [package for package in ("torch", "onnxscript") if find_spec(package) is None]
    if missing:
        raise UsageError(
            f"{' and '.join(missing)} cannot be imported here",
            name,
            "PyTorch, and onnxscript for its export to ONNX",
            "pip install torch onnxscript",
        )
