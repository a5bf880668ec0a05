"""Describes the folder of a user's operators, as `trtsmith op new` writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.compile.logged import SetupError

LIST = "plugins.cmake"
_OPERATOR = re.compile(r"^\s*trtsmith_operator\(\s*(\w+)(?P<rest>[^)]*)\)", re.MULTILINE)
_COMMENT = re.compile(r"#.*")
_KEYWORDS = {"BINDING": "ops", "KERNELS": "kernels", "TRITON": "kernels", "DATA_DEPENDENT_SHAPES": "ops"}
"""Words of a line, and the folder of the files behind each."""


@dataclass(frozen=True)
class PackageFolder:
    """The folder of a package. root: absolute. name: of the Python package in it."""

    root: Path
    name: str

    @property
    def list_file(self) -> Path:
        """The file that lists the operators and their sources."""
        return self.root / LIST

    @property
    def module(self) -> Path:
        return self.root / self.name

    @property
    def lib(self) -> Path:
        return self.module / "lib"

    @property
    def build(self) -> Path:
        """The compilers' working folder; may be deleted at any time."""
        return self.root / "build" / "plugins"

    @property
    def library_name(self) -> str:
        return f"{self.name}_plugins"

    def library(self, *, v2: bool = False) -> Path:
        return self.lib / f"lib{self.library_name}{'_v2' * v2}.so"

    def operators(self) -> tuple[str, ...]:
        """Returns the operators that have a kernel, by the list."""
        return tuple(match[1] for match in self._entries())

    @property
    def triton(self) -> Path:
        """The folder of bindings for kernels written in Triton, and of their binaries: CMake reads them there."""
        return self.root / "build" / "triton"

    def triton_kernels(self) -> dict[str, str]:
        """Files in kernels/ that are written in Triton, by the operators that they compute."""
        found = {}
        for match in self._entries():
            words = match["rest"].split()
            if "TRITON" in words[:-1]:
                found[match[1]] = words[words.index("TRITON") + 1]
        return found

    def require_sources(self) -> None:
        """Raises SetupError naming the list's first missing source, briefer than CMake would."""
        for match in self._entries():
            words = match["rest"].split()
            place = "ops"
            for word in words:
                if word in _KEYWORDS:
                    place = _KEYWORDS[word]
                elif "$" not in word and not (self.root / place / word).is_file():
                    raise SetupError(
                        f"{place}/{word} does not exist",
                        f"{self.list_file}: trtsmith_operator({match[1]} ...)",
                        "BINDING: a file in ops/; KERNELS and TRITON: files in kernels/",
                        f"correct the name, or write {place}/{word}",
                    )

    def _entries(self) -> list[re.Match[str]]:
        text = self.list_file.read_text(encoding="utf-8", errors="replace")
        return list(_OPERATOR.finditer(_COMMENT.sub("", text)))


def find_package(folder: Path) -> PackageFolder:
    """Returns the package of a folder. SetupError if it is none: no plugins.cmake, or not one Python package."""
    root = folder.absolute()
    made = "a folder that `trtsmith op new` wrote, or one with plugins.cmake, kernels/, ops/ and one Python package"
    if not root.is_dir():
        what = "there is no such folder" if not root.exists() else "this is not a folder"
        raise SetupError(
            what, str(folder), made, "correct the path, or write a package: trtsmith op new NAME"
        )
    if not (root / LIST).is_file():
        raise SetupError(
            f"the folder has no {LIST}", str(folder), made, "name the folder in which plugins.cmake is"
        )
    names = sorted(path.parent.name for path in root.glob("*/__init__.py") if path.parent.name != "tests")
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise SetupError(
            f"the folder has {len(names)} Python packages: {found}",
            str(folder),
            "one, which gets the library into its folder lib/",
            "keep one package in a folder",
        )
    if not names[0].isidentifier():
        raise SetupError(
            f"{names[0]!r} is not a valid name of a Python package",
            str(folder),
            "an identifier",
            "rename the folder",
        )
    return PackageFolder(root, names[0])
