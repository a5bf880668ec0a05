"""Collects the sources of operators from outside: the user's options, the environment, and installed packages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

from trtsmith.converter.base.errors import UsageError

VARIABLE = "TRTSMITH_OPS"
"""Specs, separated as folders in PATH. Child processes get theirs by it."""

GROUP = "trtsmith.operators"
"""The group of entry points whose values are modules with OPERATORS."""

LEAVE_OUT = "--no-plugins-from-packages"


@dataclass(frozen=True)
class OperatorSource:
    """A place that names a package.

    spec:      FILE.py, FOLDER or dotted MODULE.
    said:      who says so, for messages.
    installed: whether an installed package does, by an entry point.
    """

    spec: str
    said: str
    installed: bool = False

    def problem(self, what: str, where: str, expected: str, fix: str) -> UsageError:
        """Makes an error about this package."""
        if self.installed:
            fix = f"{fix}; or leave installed packages out with {LEAVE_OUT}"
        return UsageError(f"{self.said}: {what}", where, expected, fix)


def sources(specs: Sequence[str], *, installed: bool = True) -> Iterator[OperatorSource]:
    """Lists sources from the user's options, then the environment, then installed packages unless excluded."""
    yield from (OperatorSource(spec, f"--ops {spec}") for spec in specs)
    yield from from_environment()
    if installed:
        yield from _entry_points()


def from_environment() -> Iterator[OperatorSource]:
    """Yields the packages that TRTSMITH_OPS names."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    yield from (OperatorSource(spec, f"{VARIABLE}, {spec}") for spec in named if spec)


def _entry_points() -> Iterator[OperatorSource]:
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        whose = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
        source = OperatorSource(
            point.value.partition(":")[0].strip(), f"entry point {point.name}{whose}", True
        )
        if point.value.partition(":")[2].strip() not in ("", "OPERATORS"):
            what = f"its value is {point.value!r}"
            fix = f"correct the entry point in the package's pyproject.toml: {point.name} = {source.spec!r}"
            raise source.problem(what, f"the group {GROUP}", "a module that has OPERATORS", fix)
        yield source
