"""One conversion of a zoo, as it is handed to whoever runs it: plain data, which pickles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ENGINE = "model.plan"
"""The engine's file in a task's folder; the manifest, the plugin libraries and the record stand beside it."""


@dataclass(frozen=True)
class Needs:
    """What a task takes of a machine while it runs.

    cpus:       cores.
    memory_mib: of all its processes together; the task ends where they take more. None: no limit.
    gpu:        "" for none; "any"; or a name as Ray's accelerator types have it ("H100", "L4").
    timeout_s:  for the whole task; None: no limit.
    """

    cpus: float = 1.0
    memory_mib: int | None = None
    gpu: str = ""
    timeout_s: float | None = None


@dataclass(frozen=True)
class BatchTask:
    """One conversion.

    name:    "model/variant", or the model's name where it has one variant only: unique, and the task's folder.
    model:   the name of the model in the zoo; variant: the values of the matrix by axis, {} without one.
    source:  the model as `trtsmith convert` takes it: an absolute path, or "package.module:function".
    words:   the command line of `trtsmith convert SOURCE -o ENGINE`, without these three; paths in it are absolute.
    bench:   the command line of `trtsmith bench`, likewise; None: the engine is not timed.
    files:   every file that the conversion reads, absolute: the model with its external data, inputs, plugin libraries,
        definitions of operators. They are what is shipped to another machine, and what a key of the cache is made of.
    hashed:  whether `files` are all that it depends on. A module that is imported by name is not: it is never cached.
    line:    of the zoo's file, 1 for the first.
    """

    name: str
    model: str
    source: str
    words: tuple[str, ...]
    files: tuple[Path, ...]
    variant: Mapping[str, str] = field(default_factory=dict)
    bench: tuple[str, ...] | None = None
    needs: Needs = field(default_factory=Needs)
    hashed: bool = True
    line: int = 0
