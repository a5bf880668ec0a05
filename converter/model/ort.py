"""Runs onnxruntime on a Model with its mapped weights, without copying them to disk or into a proto."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime.capi.onnxruntime_pybind11_state as ort_c

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.converter.model.check import iter_tensors
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import calls_functions
from trtsmith.converter.model.ort_kernels import depends_on_threads, holds_bfloat16, quantised
from trtsmith.converter.model.split_session import SplitSession
from trtsmith.converter.model.tensors import is_external
from trtsmith.converter.model.unsigned_operands import with_unsigned_operands

# The newest IR version that onnxruntime 1.31 takes. Later ones only add fields and types that a reader may
# ignore; a model that really uses what onnxruntime lacks is refused by it all the same, with the node's name.
_NEWEST_IR_VERSION = 13
_FIRST_WITH_CONSTANTS = 4
"""The IR version from which on an initializer need not be an input, which a caller may replace."""

_OLDEST_OPSET = 7
"""The first opset of which onnxruntime has every operator."""

_NO_MEMORY = "Failed to allocate memory"

_RELEASED_ONLY = "ALLOW_RELEASED_ONNX_OPSET_ONLY"
_UNRELEASED = "official released onnx opset"
RUN_OPTIONS: ContextVar[ort.RunOptions | None] = ContextVar("options of runs", default=None)
"""By which the runs of a thread can be ended (converter/model/beside.py)."""

_ENVIRONMENT = Lock()
"""Held by who has changed the process's environment: one call of onnxruntime's opens a model with it, and puts it back."""

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_WIDE = "/bfloat16 as float32"
"""At the end of the names of such inputs and outputs of a session."""

_THRIFTY_FROM = 1 << 30  # bytes of the model's files
_FATAL_ONLY = 4  # its errors are raised, so that to log them as well would say everything twice

# onnxruntime's errors have no common base below Exception.
_ORT_ERRORS: tuple[type[Exception], ...] = (
    *(kind for kind in vars(ort_c).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    *(ValueError, TypeError, RuntimeError, MemoryError),
)

# The ways in which onnxruntime's messages name a node; op_type is written before or after the name.
_NODE = (
    re.compile(r"\(op_type:\s*(?P<op>[^,()]+), node name: (?P<name>[^)]*)\)"),
    re.compile(r"running (?P<op>\S+) node\. Name:'(?P<name>[^']*)'"),
    re.compile(r"In Node, \(\"(?P<name>[^\"]*)\", (?P<op>[^,]+),"),
    re.compile(r"implementation for (?P<op>\S+?)\(\d+\) node with name '(?P<name>[^']*)'"),
    re.compile(r"Node \((?P<name>[^)]*)\) Op \((?P<op>[^)]*)\)"),
    re.compile(r"Node:(?P<name>\S*)"),
)
_OUT_OF_RANGE = re.compile(r"out of (data )?bounds|invalid ind(ex|ice) found")
_UNKNOWN_OP = re.compile(
    r"(?P<op>\S+?)\(-?\d+\) is not a registered function/op|No Op registered for (?P<bare>\S+)"
)


def open_session(
    model: Model,
    *,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    repack: bool = True,
    optimise: bool | None = None,
    in_order: bool = False,
    thrifty: bool | None = None,
) -> Any:
    """Opens a session for the model. Raises ConversionError if onnxruntime refuses it. Active functions
    (converter/model/node_functions.py) compute their nodes.

    repack: whether onnxruntime may copy weights into the layout that its kernels like: a detector of 185 MB ran in
        9.8 s with and 18.2 s without. False keeps weights where they are mapped: opening 200 MB took 2 MB of memory,
        where repacking took 185 MB (and so did handing onnxruntime arrays or buffers).
    optimise: whether onnxruntime may optimise the graph, which takes longer than running a small one once. None: if it has
        no quantised operators and no bfloat16. The former it fuses into others with other roundings, and it drops a Relu
        before a QuantizeLinear to a signed type; of the latter it takes out Casts that round. True is for timing: of 8-bit
        numbers onnxruntime then uses the products that the model has, which are not exact on every CPU
        (converter/model/unsigned_operands.py).
    thrifty: hold no second copy of weights: neither repacked nor folded, and no pool that keeps what is free again. None:
        for models from 1 GiB on, where memory is worth more than the time.
    in_order: run nodes in the order in which the graph has them. In its own order onnxruntime runs nodes that only lead
        to outputs last, and all values that they read stay in memory until then: 2.7 GB instead of 0.4 GB for the
        maximum of each of 60 values of 40 MB.
    """
    if thrifty is None:
        thrifty = sum(file.size for file in model.files.values()) >= _THRIFTY_FROM
    exact = optimise is not True
    if optimise is None:
        optimise = not quantised(model.proto) and not holds_bfloat16(model.proto)
    if calls_functions(model.proto.graph):
        told = {"optimise": optimise, "in_order": in_order}
        return SplitSession(model, lambda part, feeds: run(part, feeds, **told))
    proto = model.copied()
    proto.ir_version = min(proto.ir_version, _NEWEST_IR_VERSION)
    _widen_ends(proto.graph)
    if exact:
        proto = with_unsigned_operands(proto)
    options = ort.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if depends_on_threads(proto.graph):
        options.intra_op_num_threads = 1
    if in_order or thrifty:  # by default, all that depends on weights alone is computed before anything else
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.add_session_config_entry("session.disable_prepacking", str(int(thrifty or not repack)))
    # Threads that wait in a loop for more work take the cores from other processes: three runs of a detector beside each
    # other on two cores took 6.9 s so, and 4.1 s with threads that sleep; alone both took 0.3 s.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if thrifty:
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    # It fuses a blocked DequantizeLinear and its MatMul, and rounds the other operand to int8 unless told not to.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    _give_files(model, proto, options)

    def opened() -> ort.InferenceSession:
        with foreign_code():
            return ort.InferenceSession(
                proto.SerializeToString(),
                options,
                providers=list(providers),
                disabled_optimizers=["ConstantFolding"] if thrifty else None,
            )

    try:
        return _of_any_opset(opened)
    except _ORT_ERRORS as error:
        refusal = _refused(str(error), model, running=False)
    if optimise:
        # Of some graphs that are right its optimiser makes wrong ones: onnxruntime 1.31 takes out the node before an
        # Identity that makes an output, with what else reads that node.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        with suppress(*_ORT_ERRORS):
            return _of_any_opset(opened)
    raise refusal


def _give_files(model: Model, proto: onnx.ModelProto, options: ort.SessionOptions) -> None:
    """Tells onnxruntime where the weights of the proto are: in their files, or in memory."""
    if _is_in_place(model):
        folder = str(model.path.parent.resolve())
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        return
    # onnxruntime looks for the files of other tensors than these on disk even so; those have to go inside.
    _constants_as_initializers(proto)
    for tensor, _ in islice(iter_tensors(proto), len(proto.graph.initializer), None):
        if is_external(tensor):
            content = model.bytes(tensor).tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = content
    buffers = [file.bytes for file in model.files.values()]
    options.add_external_initializers_from_files_in_memory(
        list(model.files), buffers, [len(b) for b in buffers]
    )


def _widen_ends(graph: onnx.GraphProto) -> None:
    """Renames bfloat16 inputs and outputs and makes them float32, as onnxruntime passes no bfloat16 to numpy."""
    for values, is_input in ((graph.input, True), (graph.output, False)):
        for value in values:
            if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
                ends = [value.name + _WIDE, value.name]
                to = onnx.TensorProto.BFLOAT16 if is_input else onnx.TensorProto.FLOAT
                given, made = ends if is_input else reversed(ends)
                cast = onnx.helper.make_node("Cast", [given], [made], to=to)
                graph.node.insert(0 if is_input else len(graph.node), cast)
                value.name, value.type.tensor_type.elem_type = ends[0], onnx.TensorProto.FLOAT


def _constants_as_initializers(proto: onnx.ModelProto) -> None:
    """Turns Constant nodes of the main graph with external weights into initializers.

    With 289 MiB of them in the proto, opening and running a graph of 6,799 nodes took 2.9 s of CPU time, and 1.6 s so.
    """
    graph = proto.graph
    if proto.ir_version < _FIRST_WITH_CONSTANTS:
        return
    results = {value.name for value in graph.output}
    nodes = []
    for node in graph.node:
        attribute = node.attribute[0] if node.op_type == "Constant" and len(node.attribute) == 1 else None
        held = attribute is not None and attribute.name == "value" and is_external(attribute.t)
        if attribute is None or not held or node.domain not in ("", "ai.onnx") or node.output[0] in results:
            nodes.append(node)
            continue
        graph.initializer.add().CopyFrom(attribute.t)
        graph.initializer[-1].name = node.output[0]
    if len(nodes) < len(graph.node):
        kept = onnx.GraphProto(node=nodes)
        graph.ClearField("node")
        graph.node.extend(kept.node)


def _of_any_opset(opened: Callable[[], ort.InferenceSession]) -> ort.InferenceSession:
    """Opens the session, even if the model's opset is newer than the release of onnxruntime promises.

    It refuses them altogether otherwise; what it really lacks, it still refuses, with the node's name. onnx 1.23 writes
    opset 27, onnxruntime 1.31 promises 26. Only an environment variable allows them, which is set for these models alone.
    """
    try:
        return opened()
    except _ORT_ERRORS as error:
        if _UNRELEASED not in str(error):
            raise
    with _ENVIRONMENT:
        before = os.environ.get(_RELEASED_ONLY)
        os.environ[_RELEASED_ONLY] = "0"
        try:
            return opened()
        finally:
            if before is None:
                del os.environ[_RELEASED_ONLY]
            else:
                os.environ[_RELEASED_ONLY] = before


def run(
    model: Model,
    feeds: Mapping[str, npt.NDArray[Any]],
    *,
    optimise: bool | None = None,
    in_order: bool = False,
) -> dict[str, npt.NDArray[Any]]:
    """Opens the model, runs it once on the CPU, and returns the outputs by name. Raises ConversionError."""
    return run_session(open_session(model, optimise=optimise, in_order=in_order), model, feeds)


def run_session(
    session: Any, model: Model, feeds: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Runs a session of `open_session(model)` and returns the outputs by name. Raises ConversionError that names the failed
    node.
    """
    names = [output.name for output in session.get_outputs()]
    if not isinstance(session, SplitSession):  # whose parts are sessions of their own
        feeds = dict(_widened(name, array) for name, array in feeds.items())
    try:
        with foreign_code():
            values = session.run(names, dict(feeds), RUN_OPTIONS.get())
    except _ORT_ERRORS as error:
        raise _refused(str(error), model, running=True) from None
    return {
        name.removesuffix(_WIDE): np.asarray(value).astype(_BFLOAT16)
        if name.endswith(_WIDE)
        else np.asarray(value)
        for name, value in zip(names, values, strict=True)
    }


def _widened(name: str, array: npt.NDArray[Any]) -> tuple[str, npt.NDArray[Any]]:
    """An input's name and array, widened as in `_widen_ends`."""
    return (name + _WIDE, array.astype(np.float32)) if array.dtype == _BFLOAT16 else (name, array)


def _is_in_place(model: Model) -> bool:
    """Whether onnxruntime finds the weights itself: each file under its own name, inside the model's folder.

    It is not so for a model that is a link to a file elsewhere, or whose file was replaced since it was
    mapped. Files with several names, as uv installs them, are onnx's and onnxruntime's to refuse.
    """
    try:
        folder = model.path.parent.resolve(strict=True)
        os.fspath(folder).encode()
        return all(
            (folder / location).resolve(strict=True).is_relative_to(folder)
            and file.is_at(Path(folder / location))
            and file.stat.st_nlink == 1
            for location, file in model.files.items()
        )
    except (OSError, ValueError):
        return False


def _refused(message: str, model: Model, running: bool) -> ConversionError:
    what = f"onnxruntime cannot {'run' if running else 'open'} the model"
    message = re.sub(r"\s+", " ", re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", message)).strip()
    where, unknown = str(model.path), _UNKNOWN_OP.search(message)
    node = next((match for match in (pattern.search(message) for pattern in _NODE) if match), None)
    if node is not None:
        op = node.groupdict().get("op")
        where += f": node {node['name']!r}" + (f" ({op})" if op else "")
    if unknown is not None:
        op = unknown["op"] or unknown["bare"]
        where = str(model.path) + _nodes_of(op, model)
        bare = op.rpartition(":")[2]
        fix = (
            f"give a function that computes it (--reference {quote(bare)}=MODULE:FUNCTION), or the operator an ONNX "
            "function body; "
            "where a GPU runs the engine, the outputs will do (--expected)"
        )
        return ConversionError(f"{what}: it does not know {op}.", where, "operators of onnxruntime", fix)
    if running and _NO_MEMORY in message:
        fix = "compare on a machine with more memory, or give smaller inputs; --no-verify builds without a comparison"
        return ConversionError(f"{what}: {message[:1000]}", where, "memory for all values", fix)
    if node is None and running:
        expected = "inputs of the names, types and shapes that the model declares"
        return ConversionError(f"{what}: {message[:1000]}", where, expected, "feed such inputs")
    if running and node is not None and _OUT_OF_RANGE.search(message):
        inputs = ", ".join(map(repr, _inputs_before(node.groupdict().get("op"), node["name"], model)))
        expected = "indices inside of what they point into"
        fix = f"give values for which they are: --inputs FILE.npz with {inputs}"
        return ConversionError(
            f"{what}: {message[:1000]}", f"{where}, computed from input {inputs}", expected, fix
        )
    fix = "check the node with onnx.checker.check_model, or export the model again"
    if any(o.version < _OLDEST_OPSET and o.domain in ("", "ai.onnx") for o in model.proto.opset_import):
        fix = "convert the model with onnx.version_converter to opset 11 or later"
    return ConversionError(f"{what}: {message[:1000]}", where, "a model that onnxruntime runs", fix)


def _inputs_before(op: str | None, name: str, model: Model) -> list[str]:
    """The model inputs from which a node's indices are computed."""
    graph = model.proto.graph
    makers = {output: node for node in graph.node for output in node.output}
    queue = [
        value for node in graph.node if (node.op_type, node.name) == (op, name) for value in node.input[1:2]
    ]
    seen: set[str] = set()
    while queue:
        value = queue.pop()
        if value not in seen:
            seen.add(value)
            queue += makers[value].input if value in makers else ()
    return [value.name for value in graph.input if value.name in seen]


def _nodes_of(op: str, model: Model) -> str:
    """The nodes of an operator that onnxruntime calls `domain:OpType` or `OpType`, for messages."""
    domain, _, op_type = op.rpartition(":")
    domain = "" if domain == "ai.onnx" else domain
    names = [
        n.name or n.output[0] for n in model.proto.graph.node if (n.domain, n.op_type) == (domain, op_type)
    ]
    if not names:
        return f": {op}"
    return f": node {names[0]!r} ({op_type})" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
