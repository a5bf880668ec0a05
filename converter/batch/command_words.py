"""Reads command lines of `trtsmith convert`: their options, the paths in them, and the GPU that a task needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.base.options.gpu_names import as_targets
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.engine.builder.flavour import preferred

_SILENT = frozenset({"-q", "--quiet", "-v", "--verbose"})
"""Options that change what is said, and nothing that is made."""

_BEFORE_A_PATH = "=@:,"
"""What stands before a path inside a word: --inputs=/a.npz, grid=@/b.npy, output:/c."""

PathName = Callable[[str], "str | None"]
"""Another name for a path; None: the path is not known, and stays."""

ANY = "any"
_FULL = "tensorrt"


def canonical_words(words: Sequence[str], path_name: PathName) -> list[list[str]]:
    """Groups words as [[option, value, ...], ...] in the order of the options' names.

    An option that is repeated keeps the order of its values, and so do --mend and --no-mend, the last of which counts.
    """
    options = [option for option in _options(words) if option[0] not in _SILENT]
    options.sort(key=lambda option: option[0].replace("--no-", "--", 1))
    return [[option[0], *renamed_paths(option[1:], path_name)] for option in options]


def last_value(words: Sequence[str], flag: str, default: str) -> str:
    """Returns the value that argparse would use for an option."""
    return next((o[1] for o in reversed(list(_options(words))) if o[0] == flag and len(o) > 1), default)


def all_values(words: Sequence[str], flag: str) -> list[str]:
    """Returns the values of an option that may be repeated."""
    return [value for option in _options(words) if option[0] == flag for value in option[1:]]


def has_option(words: Sequence[str], flag: str) -> bool:
    return any(option[0] == flag for option in _options(words))


def renamed_paths(words: Sequence[str], path_name: PathName) -> list[str]:
    """Replaces these paths in the words."""
    return [_renamed(word, path_name) for word in words]


def _renamed(word: str, path_name: PathName) -> str:
    """The longest path that is known and ends the word is renamed."""
    for place, character in enumerate(word):
        if character == os.sep and (place == 0 or word[place - 1] in _BEFORE_A_PATH):
            name = path_name(word[place:])
            if name is not None:
                return word[:place] + name
    return word


def _options(words: Sequence[str]) -> Iterator[list[str]]:
    """The options with their values; words before the first option belong to one without a name."""
    option: list[str] = []
    for word in words:
        if word.startswith("-") and word[1:2].strip("0123456789."):
            if option:
                yield option
            name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            option = [name, value] if equals else [name]
        else:
            option = [*(option or [""]), word]
    if option:
        yield option


def below(folder: Path, files: Sequence[Path]) -> list[Path]:
    """Lists all files in the folder, at any depth."""
    return [file for file in files if folder in file.parents]


@dataclass(frozen=True)
class GpuDemand:
    """The GPU that a task needs.

    name:    as Ray's accelerator types have it; "any".
    targets: compute capabilities of which it must have one, "sm89"; (): any.
    why:     for messages.
    """

    name: str
    targets: tuple[str, ...]
    why: str


def gpu_demand(task: BatchTask, flavours: Collection[str]) -> GpuDemand | None:
    """Returns the GPU that a task needs; None hides all GPUs from it.

    Engines of TensorRT are built on the GPU that they are for; comparing, timing and tuning an engine needs one that runs
    it.
    flavours: those that machines without a GPU have: there --flavour auto is TensorRT-RTX if it is there, and --verify
    auto compares the graph.
    """
    asked = last_value(task.words, "--flavour", "auto")
    full = asked == _FULL or preferred(flavours, asked, has_gpu=False) == _FULL
    runs = last_value(task.words, "--verify", "") == "engine" and not has_option(task.words, "--no-verify")
    reasons = {
        "TensorRT builds on the GPU that an engine is for": full,
        "--verify engine runs the engine": runs,
        "the engine is timed": task.bench is not None,
        "tune times engines": task.tune is not None,
        f"it asks for the GPU {task.needs.gpu}": bool(task.needs.gpu),
    }
    if not any(reasons.values()):
        return None
    targets = as_targets(filter(None, last_value(task.words, "--target", "").lower().split(",")))
    return GpuDemand(
        task.needs.gpu or ANY, targets, "; ".join(why for why, holds in reasons.items() if holds)
    )
