"""Computes the cache key of a conversion: a digest of everything its result depends on (docs/reference/cache.md)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.command_words import below, canonical_words, has_option, last_value
from trtsmith.converter.batch.file_hashes import FileHashes
from trtsmith.converter.batch.machine import ALWAYS, CALIBRATION, TORCH, MachineFacts
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.operators.sources import LEAVE_OUT

FORM = 2
"""The version of the hashed form: another number changes all keys."""

_CALIBRATED = ("int8", "fp8")

MachineOf = Callable[[BatchTask], "MachineFacts | None"]
"""The machine that a task is run on; None where that is not known: the task then has no key."""


class Keys:
    """Computes the keys of one batch: each file is hashed once. hashes: of files, which executors may share."""

    def __init__(self, machine_of: MachineOf, hashes: FileHashes) -> None:
        self._machine_of, self._hashes = machine_of, hashes

    def read(self, tasks: Iterable[BatchTask]) -> None:
        """Hashes the files of all these tasks, several at a time. Otherwise `of` does it for one task."""
        self._hashes.read(file for task in tasks if task.hashed for file in task.files)

    def of(self, task: BatchTask) -> str:
        """Returns 64 hexadecimal digits; "" for a task that depends on more than can be hashed, or whose files cannot be
        read.
        """
        machine = self._machine_of(task) if task.hashed else None
        facts = None if machine is None else facts_of_key(task, machine)
        if facts is None:
            return ""
        try:
            document = {"form": FORM, **_files(task, self._hashes), **facts}
        except OSError:
            return ""
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def unchanged(self, task: BatchTask) -> bool:
        """Tells whether the task's files are unchanged since its key was made; to check before its result is stored."""
        return self._hashes.unchanged(task.files)


def _files(task: BatchTask, hashes: FileHashes) -> dict[str, Any]:
    """Files, and the words that name them. OSError for a file that cannot be read."""
    given, source = set(task.files), Path(task.source)
    named: set[Path] = set()

    def name_of(text: str) -> str | None:
        path = Path(text)
        inside = below(path, task.files)
        if path not in given and not inside:
            return None
        named.add(path)
        if path in given:
            return f"<{path.name} {hashes.of(path)}>"
        listed = sorted((file.relative_to(path).as_posix(), hashes.of(file)) for file in inside)
        return f"<{path.name} {json.dumps(listed)}>"

    words = canonical_words(task.words, name_of)
    bench = None if task.bench is None else canonical_words(task.bench, name_of)
    tune = None if task.tune is None else canonical_words(task.tune, name_of)
    others = [
        file
        for file in task.files
        if file != source
        and not named.intersection(file.parents)
        and (file not in named or file.suffix == ".py")
    ]
    return {
        "model": [source.suffix, hashes.of(source)],
        "files": sorted([name, hashes.of(file)] for name, file in _with_names(others, source.parent)),
        "words": words,
        "bench": bench,
        "tune": tune,
    }


def _with_names(files: Sequence[Path], folder: Path) -> Iterator[tuple[str, Path]]:
    """External data is named from the model's folder on, as the model does. Other files are the modules beside a file of
    --ops, which is why that file is among them: they are named from the folder on that has them all."""
    outside = [file for file in files if folder not in file.parents]
    common = os.path.commonpath([file.parent for file in outside]) if outside else ""
    for file in files:
        yield file.relative_to(folder if folder in file.parents else common).as_posix(), file


def facts_of_key(task: BatchTask, machine: MachineFacts) -> Mapping[str, Any] | None:
    """Returns the machine's facts that enter a key; None if one is unknown."""
    built = last_value(task.words, "--flavour", "auto")
    bench = task.bench or ()
    asked = {built, last_value(bench, "--flavour", built)}  # auto of bench is what the engine was built with
    flavours = {name: machine.flavour(name) for name in asked}
    tensorrt = {name: machine.flavours.get(name or "", "") for name in flavours.values()}
    packages = "" if has_option(task.words, LEAVE_OUT) else machine.packages
    if not all(tensorrt.values()) or packages is None or machine.operators is None:
        return None
    used = {"trtsmith": (), **ALWAYS}
    if (
        Path(task.source).suffix != ".onnx"
        or has_option(task.words, "--reference")
        or has_option(bench, "--torch")
    ):
        used |= TORCH
    if last_value(task.words, "--precision", "") in _CALIBRATED or has_option(task.tune or (), "--samples"):
        used |= TORCH | CALIBRATION
    outside = packages or machine.operators or has_option(task.words, "--ops")
    return {
        "installed": {
            name: digest
            for name, digest in machine.installed.items()
            if outside or name.startswith("tensorrt")  # its libraries are in distributions of their own
        },
        "environment": dict(machine.environment),
        "versions": {name: machine.versions.get(name, "") for name in used},
        "flavours": sorted((name, str(found)) for name, found in flavours.items()),
        "tensorrt": sorted((str(name), version) for name, version in tensorrt.items()),
        "rules": machine.rules,
        "plugins": machine.plugins,
        "operators": [machine.operators, packages],
        "gpu": _gpu(task, "tensorrt" in flavours.values(), machine),
    }


def _gpu(task: BatchTask, built_on_it: bool, machine: MachineFacts) -> list[Any] | None:
    """What a result owes to the GPU: rules ask for its compute capability; where an engine is built, run or timed on
    it, which one it is matters, too."""
    if machine.gpu is None:
        return None
    compared = (
        not has_option(task.words, "--no-verify") and last_value(task.words, "--verify", "auto") != "graph"
    )
    runs = built_on_it or compared or task.bench is not None or task.tune is not None
    return [list(machine.gpu.compute_capability), machine.gpu.name if runs else ""]
