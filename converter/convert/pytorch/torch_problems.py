"""Explains failures of PyTorch's exporters: the operator, the module that calls it, and the fix."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from trtsmith.converter.base.errors import causes
from trtsmith.converter.base.process.package_folders import PACKAGE_FOLDERS
from trtsmith.converter.scaffold.torch_source import is_installed
from trtsmith.importers.missing_fake import missing_fake
from trtsmith.importers.problem import Problem

_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\[9[0-9]m|\[0m")
_UNTRANSLATED = re.compile(
    r"No ONNX function found for <OpOverload\(op='([\w.]+)'|^(aten::\w+) with \w+ is not supported"
)
_NO_KERNEL = re.compile(r"Could not run '([\w:.]+)' with arguments from the '(\w+)' backend")
_DATA_DEPENDENT = re.compile(
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression"
)
_COMPARED = re.compile(r"aten\.(?:equal|allclose)\.default")
_AS_NUMBER = re.compile(r"data-dependent expression z?u[a-z]?\d+ ")
"""A bare symbol, where a branch has a comparison."""

_CONSTRAINTS = re.compile(
    r"Constraints violated|specialized it to be a constant|were specified as dynamic|export 0/1 specialized"
)
_GUARD = re.compile(r"Not all values of .* satisfy the generated guard")
_MISMATCH = re.compile(r"mismatch between the structure of `inputs`|top-level keys must be the arg names")
_SUGGESTED = re.compile(r"Suggested fixes:\s*\n((?:[ \t]+\S.*\n?)+)")
_INSTEAD = {
    "aten::_linalg_solve_ex": (
        "write torch.linalg.solve(a, b) as torch.linalg.inv(a) @ b, with vectors as columns, which is less exact where a is "
        "ill-conditioned"
    ),
    "aten::linalg_solve_triangular": (
        "write torch.linalg.solve_triangular(a, b, upper=False) as torch.linalg.inv(a.tril()) @ b"
    ),
    "aten::linalg_pinv": (
        "write torch.linalg.pinv(a), of independent columns, as torch.linalg.inv(a.mT @ a) @ a.mT, which is less exact "
        "where a is ill-conditioned"
    ),
    "aten::_linalg_slogdet": (
        "write torch.linalg.slogdet(a)[1] as torch.linalg.det(a).abs().log(), if the determinant is in float32's range"
    ),
    "aten::histogram": "write torch.histogram(x, n, range=(low, high))[0] as torch.histc(x, n, low, high)",
    "aten::put": "write x.put(at, y) as x.flatten().index_put((at,), y).view_as(x)",
    "aten::segment_reduce": (
        'write torch.segment_reduce(x, "mean", lengths=n), without empty segments, as x.new_zeros(len(n)).index_reduce(0, '
        'torch.repeat_interleave(n), x, "mean", include_self=False)'
    ),
    "aten::bincount": "write torch.bincount(x, w, minlength=n), for numbers below n, as w.new_zeros(n).index_add(0, x, w)",
}
"""By operator, what to write in its place."""

_MOST = 600


def refuses_shapes(error: Exception) -> bool:
    """Tells whether torch.export refused dynamic_shapes, for a fixed size in the module's code or an unknown argument."""
    return bool(_CONSTRAINTS.search(str(error)) or _MISMATCH.search(str(error)))


def decides_by_data(error: Exception) -> bool:
    """Tells whether torch.export found a data-dependent branch, which it refuses in every mode."""
    return bool(_DATA_DEPENDENT.search(str(error)))


def export_problem(error: Exception, name: str) -> Problem:
    """Returns the problem for a refusal by torch.export."""
    said = _COLOURS.sub("", str(error))
    fake = missing_fake(error, name)
    if fake is not None:
        return fake
    if _COMPARED.search(said):
        return Problem(
            "the module's code asks whether tensors are equal, as torch.equal, torch.cov and torch.corrcoef do",
            f"{name}: torch.export{_user_line(said)}",
            "a graph that is the same for all inputs",
            "write torch.equal(a, b) as (a == b).all(), and torch.cov(x) as c @ c.mT / (x.shape[1] - 1) with "
            "c = x - x.mean(1, keepdim=True)",
        )
    if _AS_NUMBER.search(said):
        return Problem(
            "the module's code makes a Python number of a tensor's value, by float(), int() or .item()",
            f"{name}: torch.export{_user_line(said)}",
            "a graph that is the same for all inputs",
            "leave it out there: a tensor of one element computes as the number does",
        )
    if _DATA_DEPENDENT.search(said):
        return Problem(
            f"the module's code branches on values of tensors: {_first(said)}",
            f"{name}: torch.export{_user_line(said)}",
            "a graph that is the same for all inputs",
            "torch._check(...) what always holds, or torch.cond for the branch",
        )
    if _CONSTRAINTS.search(said):
        suggested = _SUGGESTED.search(said)
        fix = f"dynamic_shapes with {' '.join(suggested[1].split())}" if suggested else "other dynamic_shapes"
        windows = _GUARD.search(said) and "//" in said
        if not windows:
            fix = f"write sizes in the module as x.shape[0] and not as numbers, so that they follow the input; or {fix}"
        else:  # PyTorch cannot prove that a size divides another, as behind padding to windows
            fix += (
                "; or, for a module that pads to whole windows, torch.onnx.export(..., dynamo=False, dynamic_axes=...) and "
                "the file that it writes: it keeps sizes that are computed, and has of each branch what the example takes"
            )
        return Problem(
            f"a dimension that should be dynamic is fixed: {_first(said)}",
            f"{name}: dynamic_shapes",
            "dimensions that the module's code keeps dynamic",
            fix,
        )
    if _MISMATCH.search(said):
        return Problem(
            f"dynamic_shapes do not fit the module's arguments: {_first(said)}",
            f"{name}: dynamic_shapes",
            "an entry for each argument, in the structure of the example; those of *args in one tuple",
            "correct dynamic_shapes; None stands for an argument of fixed sizes",
        )
    return Problem(
        f"torch.export cannot export the module: {type(error).__name__}: {_first(said)}",
        f"{name}: torch.export{_user_line(said) or raising_line(error)}",
        "a module that torch.export takes, called as its example calls it",
        "correct the module or the example; torch.export.export(module, args) shows PyTorch's full message",
    )


def translation_problem(error: Exception, name: str, places: dict[str, str]) -> Problem:
    """Returns the problem for a refusal by torch.onnx.export. places: where each operator is called, by its name."""
    chain = [*causes(error)]
    for one in chain:
        found = _UNTRANSLATED.search(str(one))
        if found:
            operator = (found[1] or found[2]).replace(".", "::", 1)
            plain = operator.rpartition(".")[0] or operator
            where = places.get(operator) or places.get(plain) or name
            return Problem(
                f"PyTorch's ONNX exporter does not know the operator {operator!r}",
                where,
                "operators that it translates, or one that is",
                _INSTEAD.get(plain, "write the module without it")
                + ", or give custom_translation_table an onnxscript function for it",
            )
    last = chain[-1]
    return Problem(
        f"PyTorch's ONNX exporter failed: {type(last).__name__}: {_first(_COLOURS.sub('', str(last)))}",
        f"{name}: torch.onnx.export",
        "a program that it translates",
        "correct the module, or export it to ONNX yourself and convert the file",
    )


def no_kernel(error: Exception) -> str:
    """Returns the reason why PyTorch could not compute the example's outputs."""
    found = _NO_KERNEL.search(str(error))
    if found:
        return f"{found[1]} has no {found[2]} implementation"
    return f"{type(error).__name__}: {_first(str(error))}"


def _first(said: str) -> str:
    """The first paragraph, on one line."""
    text = " ".join(said.strip().split("\n\n")[0].split())
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."


def _user_line(said: str) -> str:
    """The last place in the user's code that PyTorch names, as ", file.py line 3"."""
    found = re.findall(r'File "([^"]+)", line (\d+)', said)
    mine = [(file, line) for file, line in found if "/torch/" not in file]
    return f", {mine[-1][0]} line {mine[-1][1]}" if mine else ""


def raising_line(error: Exception) -> str:
    """The last line of the user's code that the error passed, as ", file.py line 3"; "" without one."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if _is_users(frame.filename)]
    return f", {Path(mine[-1].filename).name} line {mine[-1].lineno}" if mine else ""


def _is_users(file: str) -> bool:
    """Whether the file is neither ours nor of an installed package."""
    path = Path(file)
    ours = any(path.is_relative_to(folder) for folder in PACKAGE_FOLDERS)
    return path.is_file() and not ours and not is_installed(path)
