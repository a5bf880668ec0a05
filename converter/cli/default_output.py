"""Chooses the default output file: the model's name in the current folder, without overwriting other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.cli.console import Console
from trtsmith.converter.convert.pytorch.torch_source import PROGRAM_SUFFIX, TorchFactory, TorchFile
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.manifest import mapping, read_manifest, text
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

_SUFFIXES = (".onnx", PROGRAM_SUFFIX)

Source = Path | TorchFile | TorchFactory


@dataclass(frozen=True)
class _Made:
    """What the manifest beside an engine says that it was made of."""

    file: str
    fingerprint: str
    pytorch: bool


def named_after(source: Source, ending: str) -> Path:
    """model.plan for folder/model.onnx and the ending ".plan"; build.plan for package.module:build and net.py:build."""
    if isinstance(source, TorchFactory):
        return Path(source.function.rpartition(".")[2] + ending)
    name = (source if isinstance(source, Path) else source.path).name
    stem = next(
        (name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix) and name != suffix), name
    )
    return Path(stem + ending)


class DefaultEngine:
    """The engine's file where -o names none.

    An engine that is there already is replaced if it was made of a model of the same name: `replaced` then says so, if that
    model was another one. Raises UsageError for anything else that has the name.
    """

    def __init__(self, source: Source) -> None:
        self.path = named_after(source, ".plan")
        self._source = source
        self._before = self._made() if self.path.exists() else None
        if self.path.exists() and not self._is_ours():
            raise UsageError(self._foreign())

    def replaced(self) -> str:
        """After the conversion: a warning, or ""."""
        after = self._made() if self._before is not None else None
        if self._before is None or after is None or self._before.fingerprint == after.fingerprint:
            return ""
        return (
            f"{self.path} already existed, from another {self._before.file} or an earlier one: it is replaced"
        )

    def _made(self) -> _Made | None:
        return read_manifest(self.path, _made) if self.path.is_file() else None

    def _is_ours(self) -> bool:
        before = self._before
        if before is None:
            return False
        return before.file == self._source.name if isinstance(self._source, Path) else before.pytorch

    def _foreign(self) -> Problem:
        before = self._before
        of = (
            f"it was made of {before.file}"
            if before
            else f"no {manifest_path(self.path)} says which model it was made from"
        )
        other = "-o with another name leaves it as it is"
        return Problem(
            f"{self.path}, the default output, already exists, and {of}",
            str(self.path),
            f"nothing of that name, or an engine of {self._source}",
            f"-o {self.path} replaces it; {other}" if self.path.is_file() else other,
        )


def _made(document: Mapping[str, Any]) -> _Made:
    model = mapping(document.get("model", {}))
    return _Made(text(model.get("file", "")), text(model.get("fingerprint", "")), "calling" in document)


def default_graph(source: Source, form: str, console: Console) -> Path:
    """The ONNX file of `rewrite` where -o names none. form: of the graph: "rewritten", "expanded", "plugin-v2"."""
    path = named_after(source, f".{form}.onnx")
    if path.exists():
        console.say(f"note: {path} already exists and will be replaced")
    return path
