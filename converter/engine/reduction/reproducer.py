"""Reports the nodes on which TensorRT fails, and saves them as a model that reproduces the failure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import onnx

from trtsmith.converter.base.errors import BuildRefused
from trtsmith.converter.base.output_file import check_report
from trtsmith.converter.base.own_files import REFUSED
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.reduction.reduce import Reduced
from trtsmith.converter.graph.infer import value_types
from trtsmith.converter.model.save import save_marked
from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import op_name

MOST_SHOWN = 10
"""Nodes that a message describes; of more, the first ones."""


def check_refused_path(path: Path | None, others: tuple[object, ...], *, force: bool) -> None:
    """Raises UsageError if the model could not be written there."""
    check_report(path, others, "--refused", "the refused model", REFUSED, force=force)


def save_refused(reduced: Reduced, path: Path) -> None:
    """Writes the nodes as a model, completely or not at all, with the profile and TensorRT's words in its metadata.

    UsageError where it cannot be written.
    """
    proto = reduced.model.copied()
    facts = {
        "trtsmith.refusal": str(reduced.error),
        "trtsmith.profiles": json.dumps(
            [{name: asdict(p) for name, p in one.items()} for one in reduced.cut.profiles]
        ),
    }
    for key, value in facts.items():
        proto.metadata_props.add(key=key, value=value)
    save_marked(reduced.model.with_proto(proto), path, REFUSED)


def explained(error: BuildRefused, reduced: Reduced, saved: Path | None, mending: str = "") -> BuildRefused:
    """Adds to the refusal the nodes that it is about. saved: their model. mending: what would help, as a fix."""
    first, *others = error.problems
    own = reduced.error.problems[0] if isinstance(reduced.error, BuildRefused) else first
    shown = list(node_lines(reduced))
    more = len(reduced.nodes) - MOST_SHOWN
    if more > 0:
        shown = [*shown[:MOST_SHOWN], f"... and {more} more"]
    count = len(reduced.nodes)
    ended = f"the search ended after {reduced.seconds:.0f} s; --reduce-timeout gives it longer"
    fewer = "" if reduced.complete else f", perhaps fewer ({ended})"
    fail = "fails" if count == 1 else "fail"
    what = (
        f"{own.what if count and not isinstance(reduced.error, ChildDied) else first.what}\n"
        f"  {count} of its {counted(reduced.total, 'node')} {fail} with the same error without the others{fewer}:\n"
        + "\n".join(f"    {line}" for line in shown)
    )
    entry = reduced.subject.table.entries[min(reduced.nodes)]
    name = _name(entry.node)
    rest = f" and {counted(count - 1, 'other')}" if count > 1 else ""
    fix = "; ".join(filter(None, (mending, first.fix, _command(reduced, saved))))
    problem = Problem(what, f"{_file(first)}node {name!r} ({op_name(entry.node)}){rest}", first.expected, fix)
    left = [other for other in others if other.what != first.what and "node" in other.where]
    return BuildRefused([problem, *left])


def node_lines(reduced: Reduced) -> Iterator[str]:
    """Writes one line for each node: its name, operator, and the values that it reads and makes."""
    sizes, table = reduced.subject.sizes, reduced.subject.table
    held = {t.name: t for t in reduced.model.proto.graph.initializer}
    types = value_types(table.model.proto)

    def value(name: str) -> str:
        kind = types.get(name) or sizes.types.get(name)
        if name in held:
            tensor = held[name]
            return f"{name!r} (constant {dtype_name(tensor.data_type)}[{', '.join(map(str, tensor.dims))}])"
        dtype = dtype_name(kind.elem_type) if kind is not None and kind.elem_type else "?"
        dims = [str(d.dim_value) if d.HasField("dim_value") else "?" for d in kind.shape.dim] if kind else []
        shapes = dict.fromkeys("x".join(map(str, shape)) or "scalar" for shape in sizes.shapes.get(name, ()))
        at = f", {':'.join(shapes)}" if shapes and "?" in dims else ""
        return f"{name!r} ({dtype}[{', '.join(dims)}]{at})"

    for number in sorted(reduced.nodes):
        entry = table.entries[number]
        inside = "" if entry.parent is None else f", inside {_name(table.entries[entry.parent].node)!r}"
        reads = ", ".join(value(name) for name in entry.node.input if name) or "nothing"
        yield f"{_name(entry.node)!r} ({op_name(entry.node)}{inside}) reads {reads}"


def _name(node: onnx.NodeProto) -> str:
    return node.name or next(filter(None, node.output), "")


def _file(problem: Problem) -> str:
    """The model's file, as the message has it."""
    file = problem.where.rpartition(" in ")[2].partition(", node ")[0]
    return f"{file}, " if file else ""


def _command(reduced: Reduced, saved: Path | None) -> str:
    """What shows it again."""
    if saved is None:
        return ""
    words = ["trtsmith", "check", str(saved), "--build", "--no-mend"]
    dynamic = {
        value.name
        for value in reduced.model.proto.graph.input
        if any(not dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
    }
    for name, sizes in (reduced.cut.profiles or ({},))[0].items():
        if sizes.values:
            words += ["--values", f"{name}={_texts(sizes, '[', ',', ']')}"]
        elif name in dynamic:
            words += ["--shapes", f"{name}={_texts(sizes, '', 'x', '')}"]
    return f"the nodes are in {saved}: {shlex.join(words)}"


def _texts(sizes: Profile, begin: str, between: str, end: str) -> str:
    parts = [f"{begin}{between.join(map(str, part))}{end}" for part in (sizes.min, sizes.opt, sizes.max)]
    return parts[0] if len(set(parts)) == 1 else ":".join(parts)
