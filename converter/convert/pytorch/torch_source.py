"""Describes the PyTorch model to convert: a module with example arguments, a saved program, or a factory.

Imports no PyTorch: the command line says what is meant before anything is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM_SUFFIX = ".pt2"
"""Of files that torch.export.save writes."""

EXPORT_TIMEOUT_S = 600.0
"""How long loading and exporting in a process of their own may take, unless the user says so."""

_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_FACTORY = re.compile(rf"(.+\.py|{_DOTTED}):{_DOTTED}")


@dataclass(frozen=True, eq=False)
class TorchModule:
    """A torch.nn.Module or torch.export.ExportedProgram in this process, with example arguments.

    dynamic_shapes: as torch.export.export takes them. translations: as `custom_translation_table` of torch.onnx.export.
    save: where the ONNX model is kept, too; None: nowhere.
    """

    module: Any
    args: tuple[Any, ...] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    translations: Mapping[Any, Any] = field(default_factory=dict)
    save: Path | None = None

    def __str__(self) -> str:
        return f"the module {type(self.module).__name__}"


@dataclass(frozen=True)
class TorchFile:
    """A file of torch.export.save. It is loaded and exported in a child process."""

    path: Path
    save: Path | None = None
    timeout_s: float = EXPORT_TIMEOUT_S

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class TorchFactory:
    """A user's function, "package.module:function" or "FILE.py:function", that returns a module and its example. It is
    called in a child process, which starts in this working folder.
    """

    name: str
    save: Path | None = None
    timeout_s: float = EXPORT_TIMEOUT_S

    def __str__(self) -> str:
        return self.name

    @property
    def place(self) -> str:
        """The dotted module, or the file."""
        return self.name.rpartition(":")[0]

    @property
    def function(self) -> str:
        """The function's path in its module."""
        return self.name.rpartition(":")[2]

    @property
    def is_file(self) -> bool:
        return self.place.endswith(".py")


TorchSource = TorchModule | TorchFile | TorchFactory


def source_of_text(text: str) -> Path | TorchFile | TorchFactory:
    """Returns the meaning of MODEL on the command line: a file by its suffix, or a function if there is no such file."""
    path = Path(text)
    if path.suffix == PROGRAM_SUFFIX:
        return TorchFile(path)
    if _FACTORY.fullmatch(text) and not path.exists():
        return TorchFactory(text)
    return path
