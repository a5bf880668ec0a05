"""Lists the files that a conversion reads: its model with external data, and what its options name."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from trtsmith.converter.batch.zoo.option_checks import named_paths

_NOT_READ = ("__pycache__",)
_COMPILED = "lib"


def files_of(options: Namespace) -> tuple[Path, ...]:
    """The files that parsed options name, absolute; of folders all that is in them."""
    return tuple(_files(options))


def depends_on_modules(options: Namespace) -> bool:
    """Whether Python modules are imported by name, whose files nobody knows."""
    specs: list[str] = getattr(options, "ops", [])
    by_name = any(not os.path.isabs(spec) for spec in specs)
    return by_name or bool(getattr(options, "reference", ()))


def operator_files(spec: Path) -> Iterator[Path]:
    """Of --ops: a folder whole; a file of a package the whole package; another file with the libraries beside it."""
    if spec.is_dir():
        yield from _tree([spec])
        return
    root = spec.parent
    if not (root / "__init__.py").exists():
        yield spec
        yield from _tree([root / _COMPILED])
        return
    while (root.parent / "__init__.py").exists():
        root = root.parent
    yield from _tree([root])


def _files(options: Namespace) -> Iterator[Path]:
    for name, value in vars(options).items():
        if name not in ("output", "report", "model", "target"):  # no file, or one that every task has
            for path in named_paths(name, value):
                yield from operator_files(path) if name == "ops" else (path,)


def _tree(folders: Iterable[Path]) -> Iterator[Path]:
    """All files below folders, sorted; caches of Python and what begins with a dot left out."""
    for folder in folders:
        for root, below, names in os.walk(folder):
            below[:] = sorted(one for one in below if one not in _NOT_READ and not one.startswith("."))
            yield from (Path(root, name) for name in sorted(names) if not name.startswith("."))
