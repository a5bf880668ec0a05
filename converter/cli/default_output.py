"""Chooses the default output file: the model's name in the current folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX, TorchFactory, TorchFile
from trtsmith.converter.engine.bundle.earlier_engine import EarlierEngine, earlier_engine

_SUFFIXES = (".onnx", PROGRAM_SUFFIX)

Source = Path | TorchFile | TorchFactory


def named_after(source: Source, ending: str) -> Path:
    """Returns the default output: model.plan for folder/model.onnx and ".plan"; build.plan for package.module:build and
    net.py:build.
    """
    if isinstance(source, TorchFactory):
        return Path(source.function.rpartition(".")[2] + ending)
    name = (source if isinstance(source, Path) else source.path).name
    stem = next(
        (name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix) and name != suffix), name
    )
    return Path(stem + ending)


class DefaultEngine:
    """The default engine file, without -o."""

    def __init__(self, source: Source) -> None:
        self.path = named_after(source, ".plan")
        self._before = self._there()

    def replaced(self) -> str:
        """Returns a warning, after the conversion, if the file held an engine of another or earlier model; else ""."""
        after = self._there() if self._before is not None else None
        if self._before is None or after is None or self._before.fingerprint == after.fingerprint:
            return ""
        return f"{self.path} already existed, from another {self._before.model} or an earlier one: it is replaced"

    def _there(self) -> EarlierEngine | None:
        with suppress(UsageError):
            return earlier_engine(self.path) if self.path.is_file() else None
        return None
