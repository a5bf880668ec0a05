"""Reads the definitions of the package that is compiled, for its library to be held to."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from trtsmith.converter.compile.package_folder import PackageFolder
from trtsmith.converter.model.errors import ConversionError
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.problem import Problem


def definitions_of(package: PackageFolder) -> tuple[OpDef, ...]:
    """OPERATORS of the package, whose code runs. ConversionError if it cannot be had."""
    file = package.module / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        package.name, file, submodule_search_locations=[str(package.module)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[package.name] = module
    try:
        spec.loader.exec_module(module)
        operators: tuple[OpDef, ...] = tuple(module.OPERATORS)
    except Exception as error:
        what = f"the definitions cannot be read: {type(error).__name__}: {error}"
        fix = "correct what the message names"
        raise ConversionError(
            Problem(what, str(file), "a module with OPERATORS, a tuple of OpDef", fix)
        ) from error
    return operators
