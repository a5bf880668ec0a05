"""Describes a network in a public package: its file, its licence, and valid inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

INDEXES = ("pypi", "npm")


@dataclass(frozen=True)
class PublicPackage:
    """A package at one version. licence: as stated by the package; the model's own if stated separately.

    index: of INDEXES.
    """

    name: str
    version: str
    licence: str
    index: str = "pypi"

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}" + (" (npm)" if self.index == "npm" else "")

    def models(self, *files: ModelFile) -> tuple[RealModel, ...]:
        return tuple(RealModel(**vars(file), package=self) for file in files)


@dataclass(frozen=True)
class ModelFile:
    """A model file in a package.

    name:      of this table. file: in the package's archive. sha256: of the file.
    about:     what it does, and what wrote it.
    shapes:    of its dynamic inputs, as `trtsmith convert --shapes` takes them.
    arguments: more of `trtsmith convert`, as --freeze and its value.
    beside:    more files of the archive that it needs: its external data.
    ranges:    (least, bound) of the integers, or (value, value) of every element, that an input takes. Where one is
               given, all inputs are drawn here: indices that a network does not have are no fault of a conversion.
    """

    name: str
    file: str
    sha256: str
    about: str
    shapes: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RealModel(ModelFile):
    """A model file with its package."""

    package: PublicPackage

    def frozen(self) -> dict[str, str]:
        """Inputs that become constants, and their values."""
        given = [a for flag, a in zip(self.arguments, self.arguments[1:], strict=False) if flag == "--freeze"]
        return {name: value for name, _, value in (a.partition("=") for a in given)}
