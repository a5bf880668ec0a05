"""Loads a program of torch.export.save from a copy that contains only data."""

from __future__ import annotations

import io
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.export.pt2_archive._package import load_pt2

from trtsmith.converter.base.errors import InvalidModelError
from trtsmith.converter.convert.pytorch.callable_operators import (
    own_namespaces,
    refused_operators,
    unregistered_operators,
)
from trtsmith.converter.convert.pytorch.program_archive import copy_checked
from trtsmith.converter.engine.child.sandbox import ForbiddenError, lock_down
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import known_domains
from trtsmith.importers.torch_ops import quiet


def load_program(path: Path, work: Path, name: str, translations: Iterable[Any] = ()) -> Any:
    """Loads the ExportedProgram. work: a folder for the copy. Raises InvalidModelError if PyTorch cannot load it.

    translations: operators that become ONNX nodes in another way than PyTorch's own.

    The process is locked down behind this: nothing else can be run in it.
    """
    copy = work / "program.pt2"
    operators = copy_checked(path, copy)
    # torchvision, say, registers its operators when it is imported
    packages = ({operator.partition("::")[0] for operator in operators} & known_domains()) - own_namespaces()
    for package in sorted(packages):
        if find_spec(package) is not None:
            import_module(package)
    refused, unregistered = refused_operators(operators, translations), unregistered_operators(operators)
    problems = [_not_exported(name, operator.removesuffix(".default")) for operator in refused]
    problems += [_unregistered(name, operator.removesuffix(".default")) for operator in unregistered]
    if problems:
        raise InvalidModelError(problems)
    _warm_up()
    lock_down()
    try:
        with quiet():
            return load_pt2(str(copy)).exported_programs["model"]
    except ForbiddenError as error:
        raise InvalidModelError(_problem(name, f"loading it would run code: {error}")) from error
    except Exception as error:  # whatever PyTorch finds wrong
        raise InvalidModelError(_problem(name, _said(error))) from error
    finally:
        copy.unlink(missing_ok=True)


def _said(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:500] if lines else text


def _not_exported(name: str, operator: str) -> Problem:
    return Problem(
        f"the program calls {operator!r}, which PyTorch's exporter does not know",
        name,
        "operators of PyTorch that its exporter writes in ONNX or takes apart: a saved program may call no others",
        "write the module without it, or convert the module in Python",
    )


def _unregistered(name: str, operator: str) -> Problem:
    return Problem(
        f"the program calls {operator!r}, which no library registered with PyTorch here",
        name,
        "operators of PyTorch, of trtsmith, of a package of --ops, or of an installed package that is called as their "
        "namespace",
        "name the package that defines the operator with --ops, or convert the module in Python, where it is registered",
    )


def _problem(name: str, why: str) -> Problem:
    return Problem(
        f"the program cannot be loaded: {why}",
        name,
        f"a program that PyTorch {torch.__version__} loads, with the operators of PyTorch, of trtsmith and of --ops",
        "name the operators' package with --ops, save the program with this PyTorch, or convert the module in Python",
    )


class _Nothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def _warm_up() -> None:
    """Exports a module of one node, so that the exporter's late imports happen before the process is locked down."""
    with quiet(), torch.no_grad():
        stream = io.BytesIO()
        torch.export.save(torch.export.export(_Nothing(), (torch.zeros(2),)), stream)
        stream.seek(0)
        program = torch.export.load(stream)
        program.module()(torch.zeros(2))
        torch.onnx.export(program.run_decompositions({}), dynamo=True, verbose=False)
