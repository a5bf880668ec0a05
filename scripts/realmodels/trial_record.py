"""Keeps what was found of the networks in a file that is whole at any moment, and says it in lines."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from realmodels.model_forms import FORMS
from realmodels.model_trial import TrialResult

PACKAGES = ("onnx", "onnxruntime", "tensorrt-rtx")


class TrialRecord:
    """Results by network and form, in the order of a list of names. file: where they are kept, or None.

    machine: on which engines are run, as describe says it: it then heads the document, and its packages are the versions.
    Each result has its commit then, as --resume keeps those of earlier ones.
    """

    def __init__(
        self, names: list[str], file: Path | None, *, resume: bool, machine: Mapping[str, Any] | None = None
    ) -> None:
        self._names, self._file, self._lock = names, file, threading.Lock()
        self._machine = dict(machine or {})
        packages = self._machine.pop("packages", None)
        self._versions = packages or {package: metadata.version(package) for package in PACKAGES}
        self._results: dict[tuple[str, str], dict[str, Any]] = {}
        if resume and file is not None and file.exists():
            self._resume(json.loads(file.read_text(encoding="utf-8")))

    def _resume(self, record: Mapping[str, Any]) -> None:
        """Only results of the versions that are here now can stand beside new ones."""
        if record["versions"] == self._versions:
            self._results = {(r["model"], r["form"]): r for r in record["results"]}

    def done(self, name: str) -> set[str]:
        """The forms of a network that are there already."""
        return {form for model, form in self._results if model == name}

    def add(self, result: TrialResult) -> None:
        with self._lock:
            found = asdict(result)
            if "commit" in self._machine:
                found["commit"] = self._machine["commit"]
            self._results[result.model, result.form] = found
            print(line(found), flush=True)
            if self._file is not None:
                part = self._file.with_name(self._file.name + ".part")
                part.write_text(json.dumps(self.document(), indent=1) + "\n", encoding="utf-8")
                part.replace(self._file)

    def document(self) -> dict[str, Any]:
        places = {name: place for place, name in enumerate(self._names)}
        keys = sorted(self._results, key=lambda key: (places.get(key[0], len(places)), FORMS.index(key[1])))
        return {**self._machine, "versions": self._versions, "results": [self._results[key] for key in keys]}


def line(result: Mapping[str, Any]) -> str:
    """A form of a network on one line."""
    more = result["located"] or f"TensorRT-RTX alone: {result['native']}"
    size = f"{result['nodes']} nodes, {result['seconds']} s"
    return f"{result['model']}, {result['form']}: {result['outcome']} ({size}; {more})"
