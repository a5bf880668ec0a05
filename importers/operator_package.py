"""Defines an operator package: operators from outside, and the plugin libraries compiled for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trtsmith.importers.opdef import OpDef


@dataclass(frozen=True, eq=False)
class OperatorPackage:
    """The operators of a user's module, equal to trtsmith's own while the package is active (registry.using).

    name:      who brings them, for messages: "--ops voxels.py", "entry point mycompany (mycompany.operators)".
    operators: in the order of the module's OPERATORS.
    libraries: the plugin libraries in the folder lib/ beside the module; none before they are built.
    spec:      FILE.py, FOLDER or dotted MODULE, by which another process finds the package again; "" for one that was
        made in this process, which no other can know.
    """

    name: str
    operators: tuple[OpDef, ...]
    libraries: tuple[Path, ...] = ()
    spec: str = ""
