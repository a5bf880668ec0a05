"""Makes the key of a conversion: a digest of all that its result depends on. docs/reference/cache.md says what that is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.cache.canonical_words import (
    below,
    canonical_words,
    has_option,
    last_value,
    paths_named,
)
from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.cache.machine_facts import (
    ALWAYS,
    CALIBRATION,
    TORCH,
    MachineFacts,
    this_machine,
)
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.operators.sources import LEAVE_OUT

FORM = 1
"""Of what is hashed: another number, and no key is what it was."""

_CALIBRATED = ("int8", "fp8")

MachineOf = Callable[[BatchTask], "MachineFacts | None"]
"""The machine that a task is run on; None where that is not known: the task then has no key."""


class Keys:
    """The keys of one batch: each file is hashed once, and each machine asked once.

    machine_of: where a task is run; without it, here. hashes: of files, where the caller has some.
    """

    def __init__(self, machine_of: MachineOf | None = None, hashes: FileHashes | None = None) -> None:
        here = this_machine() if machine_of is None else None
        self._machine_of: MachineOf = machine_of or (lambda _: here)
        self._hashes = hashes or FileHashes()

    def read(self, tasks: Iterable[BatchTask]) -> None:
        """Hash the files of all these tasks, several at a time. `of` does it for one task where this was not called."""
        self._hashes.read(file for task in tasks if task.hashed for file in task.files)

    def of(self, task: BatchTask) -> str:
        """64 hexadecimal digits; "" for a task that depends on more than can be hashed, or whose files cannot be read."""
        machine = self._machine_of(task) if task.hashed else None
        if machine is None:
            return ""
        self._hashes.read(task.files)
        try:
            files = _files(task, self._hashes)
        except OSError:
            return ""
        facts = _facts(task, machine)
        if facts is None:
            return ""
        document = {"form": FORM, **files, **facts}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def unchanged(self, task: BatchTask) -> bool:
        """Whether the task's files are as they were when its key was made: to be asked before its result is kept."""
        return self._hashes.unchanged(task.files)


def _files(task: BatchTask, hashes: FileHashes) -> dict[str, Any]:
    """What is hashed of the files and of the words that name them. OSError for a file that cannot be read."""
    given = set(task.files)
    source = Path(task.source)

    def name_of(text: str) -> str | None:
        path = Path(text)
        if path in given:
            return f"<{path.name} {hashes.of(path)}>"
        inside = below(path, task.files)
        if not inside:
            return None
        listed = sorted((file.relative_to(path).as_posix(), hashes.of(file)) for file in inside)
        return f"<{path.name} {json.dumps(listed)}>"

    words = (*task.words, *(task.bench or ()))
    named = {Path(text) for text in paths_named(words, name_of)}
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
        "words": canonical_words(task.words, name_of),
        "bench": None if task.bench is None else canonical_words(task.bench, name_of),
    }


def _with_names(files: Sequence[Path], folder: Path) -> Iterator[tuple[str, Path]]:
    """External data is named from the model's folder on, as the model does. Other files are the modules beside a file of
    --ops, which is why that file is among them: they are named from the folder on that has them all."""
    outside = [file for file in files if folder not in file.parents]
    common = os.path.commonpath([file.parent for file in outside]) if outside else ""
    for file in files:
        yield file.relative_to(folder if folder in file.parents else common).as_posix(), file


def _facts(task: BatchTask, machine: MachineFacts) -> Mapping[str, Any] | None:
    """What is hashed of the machine; None where something that matters is not known of it."""
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
    if last_value(task.words, "--precision", "") in _CALIBRATED:
        used |= TORCH | CALIBRATION
    return {
        "versions": {name: machine.versions.get(name, "") for name in used},
        "flavours": sorted((name, str(found)) for name, found in flavours.items()),
        "tensorrt": sorted((str(name), version) for name, version in tensorrt.items()),
        "rules": machine.rules,
        "plugins": machine.plugins,
        "operators": [machine.operators, packages],
        "gpu": _gpu(task.words, task.bench, "tensorrt" in flavours.values(), machine),
    }


def _gpu(
    words: Sequence[str], bench: Sequence[str] | None, built_on_it: bool, machine: MachineFacts
) -> list[Any] | None:
    """What a result owes to the GPU: rules ask for its compute capability; where an engine is built, run or timed on
    it, which one it is matters, too."""
    if machine.gpu is None:
        return None
    compared = not has_option(words, "--no-verify") and last_value(words, "--verify", "auto") != "graph"
    runs = built_on_it or compared or bench is not None
    return [list(machine.gpu.compute_capability), machine.gpu.name if runs else ""]
