"""Saves a faulty node as a folder that reproduces the error: model, inputs, outputs, and commands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from trtsmith.converter.base.arrays import write_npz
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import take_place, unfinished_folder
from trtsmith.converter.base.own_files import ARRAYS
from trtsmith.converter.base.printable import one_line
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.locate.describe import ranges
from trtsmith.converter.locate.executors.executor import Onnxruntime, ProbedValue, plain_edges
from trtsmith.converter.locate.search import NodeFault
from trtsmith.converter.locate.searched_graph import (
    Region,
    ReplayKernel,
    SearchedGraph,
    region_model,
    region_of,
)
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.importers.expansion import plugin_nodes
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.registry import op_name

MODEL, INPUTS, EXPECTED, ACTUAL, REWRITTEN, README = (
    "node.onnx", "inputs.npz", "expected.npz", "actual.npz", "rewritten.onnx", "README.txt",
)  # fmt: skip
FILES = frozenset({MODEL, INPUTS, EXPECTED, ACTUAL, REWRITTEN, README, f"{MODEL}.data", f"{REWRITTEN}.data"})
"""What such a folder holds; one with anything else in it is never replaced."""


@dataclass(frozen=True, eq=False)
class Reproducer:
    """A faulty node to save. model: the node with its tensors as inputs. expected: onnxruntime's outputs for `inputs`;
    actual: those found.

    rewritten: what the model's node became, where the rewrite is at fault. text: what is wrong, for the README.
    what: what the model is of.
    """

    model: Model
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    actual: Mapping[str, np.ndarray]
    text: str
    plugin: bool = False
    rewritten: Model | None = None
    what: str = "the node"

    @staticmethod
    def of(model: Model, inputs: Arrays, actual: Arrays, text: str, what: str = "the node") -> Reproducer:
        """Makes a reproducer with onnxruntime's outputs for the inputs."""
        plugin = next(iter(plugin_nodes(model.proto.graph)), None) is not None
        return Reproducer(
            model, inputs, Onnxruntime().execute(model, inputs), actual, text, plugin, what=what
        )


def reproducer(graph: SearchedGraph, fault: NodeFault) -> Reproducer:
    """Makes a model of a node that is wrong where it was run."""
    model, inputs = graph.alone(fault.region, fault.given)
    outputs = {name: fault.given[name] for name in fault.region.outputs}
    return Reproducer.of(model, inputs, outputs, _text(graph.table, fault, "", inputs, outputs))


def rewrite_reproducer(original: Model, rewritten: NodeTable, fault: NodeFault, given: Arrays) -> Reproducer:
    """Makes a model of the nodes that the rewrite got wrong, from the original, so that rewriting it shows the fault again.

    given: values of the original. expected: what the original made of them; actual: what the rewritten nodes make.
    """
    source = NodeTable(original)
    makers = dict.fromkeys(source.producer[name] for name in fault.region.outputs)
    regions = [region_of(source, number, given) for number in makers]
    region = Region(
        tuple(sorted({i for region in regions for i in region.nodes})),
        tuple(dict.fromkeys(name for region in regions for name in region.inputs)),
        tuple(dict.fromkeys(name for region in regions for name in region.outputs)),
    )
    model = region_model(source, region, given, _infos(region, fault.given))
    inputs = {name: np.asarray(given[name]) for name in region.inputs}
    wrong = region_model(rewritten, fault.region, fault.given, _infos(fault.region, fault.given))
    actual = Onnxruntime().execute(wrong, {name: fault.given[name] for name in fault.region.inputs})
    expected = Onnxruntime().execute(reference(model), inputs)
    text = _text(rewritten, fault, "after the rewrite, ", inputs, expected)
    return Reproducer(model, inputs, expected, actual, text, rewritten=wrong)


def _infos(region: Region, given: Arrays) -> list[onnx.ValueInfoProto]:
    return [ProbedValue(name, str(given[name].dtype), given[name].shape).info() for name in region.outputs]


def _text(table: NodeTable, fault: NodeFault, when: str, inputs: Arrays, outputs: Arrays) -> str:
    wrong = "; ".join(f"{c.output}: {c.reason}" for c in fault.local if not c.agrees)
    return (
        f"Node {table.label(fault.node)!r} ({op_name(table.nodes[fault.node])}): {when}{wrong}\n\n"
        f"inputs:\n{ranges(inputs)}\noutputs:\n{ranges(outputs)}"
    )


def kernel_alone(replay: ReplayKernel | None, saved: Reproducer) -> str:
    """Runs the plugin's kernel on the same inputs, without TensorRT."""
    ran = replay(saved.model, saved.inputs, saved.expected) if replay is not None else None
    if ran is None:
        return "not run: there is no GPU here; `trtsmith plugin replay` runs the saved node on a machine with one"
    return f"{ran.verdict} ({ran.text})"


def saved_folder(model: Path) -> Path:
    """Returns the default folder for a reproducer: in the current folder, named after the model."""
    return Path(model.name or "model").with_suffix(".located")  # "." is no model, which is said elsewhere


def check_folder(folder: Path, *, force: bool) -> None:
    """Checks before the search that the folder can be made or replaced. Raises UsageError.

    force: files of our names in it may be anybody's.
    """
    where = f"-o {folder}"
    if folder.is_dir():
        there = {path.name for path in folder.iterdir()}
        strange = sorted(there - FILES)
        if there and not (strange or force or _is_of_a_search(folder, there)):
            strange = sorted(there)
        if strange:
            what = f"the folder has other files: {strange[0]!r}"
            raise UsageError(what, where, "a new folder, or one of an earlier search", "name another")
    elif folder.exists():
        raise UsageError("a file of that name exists", where, "a folder", "name another")
    if not folder.parent.is_dir() or not os.access(folder.parent, os.W_OK):
        what = f"the folder {folder.parent} does not exist or cannot be written"
        raise UsageError(what, where, "a place where a folder can be made", "name another")


def _is_of_a_search(folder: Path, there: Set[str]) -> bool:
    """Whether a folder that has these files, and all under our names, is what a search wrote."""
    arrays = [folder / name for name in (INPUTS, EXPECTED, ACTUAL)]
    ours = all(path.is_file() and ARRAYS.is_one(path) for path in arrays)
    return ours and {MODEL, README} <= there


def save_reproducer(found: Reproducer, folder: Path) -> None:
    """Writes the folder atomically, replacing an earlier search's. Raises UsageError.

    bfloat16 is float32 in the .npz files, which have no such type, with a Cast in the model: no value changes.
    """
    check_folder(folder, force=True)  # whose files they are was asked before the search
    edges = plain_edges(found.model)
    try:
        work = unfinished_folder(folder.parent)
        try:
            save_model(edges.model, work / MODEL)
            if found.rewritten is not None:
                save_model(plain_edges(found.rewritten).model, work / REWRITTEN)
            for name, arrays in ((INPUTS, found.inputs), (EXPECTED, found.expected), (ACTUAL, found.actual)):
                with open(work / name, "wb") as stream:
                    write_npz(stream, edges.put_in(arrays))
            (work / README).write_text(_readme(found, folder), encoding="utf-8")
            take_place(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        what = f"the folder cannot be written: {error.strerror}"
        raise UsageError(what, f"-o {folder}", "a folder that you may write", "name another") from error


def _readme(found: Reproducer, folder: Path) -> str:
    lines: Sequence[str] = (
        *map(one_line, found.text.split("\n")),
        "",
        f"{MODEL}: {found.what} alone; {INPUTS}: the inputs",
        f"{EXPECTED}: onnxruntime's outputs; {ACTUAL}: those that were found",
        *([f"{REWRITTEN}: what the rewrite made of it"] if found.rewritten is not None else []),
        "",
        "To see it again, in this folder:",
        f"  trtsmith convert {MODEL} -o node.plan --inputs {INPUTS} --expected {EXPECTED}",
        f"  trtsmith locate {MODEL} --inputs {INPUTS}",
        *(
            ["To run the plugin's kernel alone, without TensorRT:", "  trtsmith plugin replay ."]
            if found.plugin
            else []
        ),
        "",
    )
    return "\n".join(lines)
