"""Checks the names of a new operator against the rules of Python, C++, ONNX, CMake and the plugin registry."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from dataclasses import dataclass

import onnx.defs

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.compile.sdk import kernel_headers, sdk_folder
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.converter.scaffold.quoting import CPP_WORDS
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import by_name

_CAMEL = re.compile(r"[A-Z][A-Za-z0-9]{1,63}")
_DOMAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.\-][A-Za-z0-9_]+)*")
_STANDARD = ("ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.training", "com.microsoft")


@dataclass(frozen=True)
class Names:
    """An operator's names in its files. name: VoxelMaxPool. domain: of ONNX nodes."""

    name: str
    domain: str

    @property
    def snake(self) -> str:
        """Writes voxel_max_pool, as OpDef.snake_name does: the package, its files, the PyTorch operator."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()

    @property
    def camel(self) -> str:
        """Writes voxelMaxPool: functions in C++."""
        return self.name[0].lower() + self.name[1:]

    @property
    def constant(self) -> str:
        """Writes VOXEL_MAX_POOL: the definition in Python."""
        return self.snake.upper()

    def placeholders(self) -> dict[str, str]:
        """Returns values of the templates' @...@ placeholders."""
        return {
            "Name": self.name,
            "NAME": self.constant,
            "snake": self.snake,
            "camel": self.camel,
            "dashed": self.snake.replace("_", "-"),
            "domain": self.domain,
            "description": f"The operator {self.domain}::{self.name} for trtsmith",
        }


def is_operator_name(name: str) -> bool:
    """Whether an operator of a package may be called so."""
    return not _of_name(Names(name, ""))


def own_name(op_type: str) -> str:
    """Makes a name for the operator of a package from an op_type, or from the name of a PyTorch operator."""
    name = "".join(word[0].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", op_type))
    name = name if name[:1].isalpha() else f"Operator{name}"
    return name if is_operator_name(name) else f"{name}Plugin"


def is_own_domain(domain: str) -> bool:
    """Whether a package may have operators of the domain."""
    return not _of_domain(domain)


def check_names(name: str, domain: str) -> Names:
    """Checks names. Raises UsageError with all clashes and names that a language rejects."""
    names = Names(name, domain)
    problems = [*_of_name(names), *_of_domain(domain)]
    if problems:
        raise UsageError(problems)
    return names


def _of_name(names: Names) -> list[Problem]:
    name, where = names.name, f"trtsmith op new {names.name}"
    if not _CAMEL.fullmatch(name):
        expected = "letters and digits that begin with a capital, such as VoxelMaxPool: files, C++ and Python have it"
        return [
            Problem(
                f"{name!r} is not a name for an operator", where, expected, "trtsmith op new VoxelMaxPool"
            )
        ]
    taken = ""
    if onnx.defs.has(name) or name in native_operators():
        taken = "is the name of an operator of ONNX or of TensorRT's parser, which would take a node for that"
    elif name in by_name():
        taken = "is an operator that trtsmith has"
    elif (
        keyword.iskeyword(names.snake)
        or names.snake in dir(builtins)
        or names.snake in sys.stdlib_module_names
    ):
        taken = f"makes a Python package {names.snake!r}, a name that Python has taken"
    elif names.camel in CPP_WORDS:
        taken = f"makes a C++ function {names.camel!r}, a name that C++ has taken"
    elif names.snake in kernel_headers(sdk_folder()) | {
        "kernels",
        "ops",
        "test",
        "tests",
        "build",
        PLUGIN_NAMESPACE,
    }:
        taken = f"makes files called {names.snake!r}, and the headers of trtsmith have some of that name"
    if not taken:
        return []
    return [Problem(f"{name} {taken}", where, "a name of its own", f"prefix it: trtsmith op new My{name}")]


def _of_domain(domain: str) -> list[Problem]:
    where = f"--domain {domain}"
    if not _DOMAIN.fullmatch(domain):
        expected = "a domain of ONNX nodes: letters, digits and points, such as mycompany or com.mycompany"
        return [Problem(f"{domain!r} is not a domain", where, expected, "--domain mycompany")]
    if domain in (*_STANDARD, PLUGIN_NAMESPACE):
        expected = "a domain of your own: this one belongs to others"
        return [Problem(f"the domain {domain} is not yours", where, expected, "--domain mycompany")]
    return []
