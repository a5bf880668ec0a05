"""Reductions of models that TensorRT-RTX refuses, or that end its process: exactly the failing nodes remain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.converter.engine.builder.identity import ABORT, HANG, SEGFAULT, fields, identity
from tests.converter.models import written
from tests.processes import checkout_environment, children, children_of, has_ended
from tests.refused_models.faults import FAULTS
from tests.refused_models.networks import INPUT, SHAPE, network
from trtsmith.converter.base.errors import BuildRefused, UsageError
from trtsmith.converter.engine.builder.build import build
from trtsmith.converter.engine.builder.build_request import BuildRequest, PluginUse, Profile
from trtsmith.converter.engine.reduction import trials as trials_module
from trtsmith.converter.engine.reduction.reduce import Reduced, reduce_refusal
from trtsmith.converter.engine.reduction.reproducer import explained, node_lines, save_refused
from trtsmith.converter.engine.reduction.trials import Trials
from trtsmith.converter.graph.walk import all_graphs

FLAVOUR = "tensorrt_rtx"
FEW = 10


def refused(request: BuildRequest) -> BuildRefused:
    with pytest.raises(BuildRefused) as error:
        build(request)
    return error.value


def request_of(folder: Path, proto: onnx.ModelProto, external: bool = False) -> BuildRequest:
    path = folder / "network.onnx"
    onnx.save(proto, path, save_as_external_data=external, location="data.bin", size_threshold=0)
    profiles = ({INPUT: Profile(SHAPE, SHAPE, SHAPE)},)
    return BuildRequest(path, folder.parent / "engine", profiles=profiles, flavour=FLAVOUR)


def reduced(request: BuildRequest, error: BuildRefused, **options: object) -> Reduced:
    options = {"flavour": FLAVOUR, "limit_s": 90.0, **options}
    found = reduce_refusal(request, error, **options)  # type: ignore[arg-type]
    assert found is not None
    return found


CULPRITS = {
    "squeeze_without_axes": "Squeeze",
    "if_on_a_size": "If",
    "scatter_of_more_rows": "ScatterElements",
    "gathered_int8": "Gather",
    "loop_until_a_counter": "Loop",
}


@pytest.mark.parametrize("by_name", [True, False], ids=["by-name", "by-bisection"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_network_of_some_hundred_nodes(tmp_path: Path, fault: str, by_name: bool) -> None:
    before = children()
    request = request_of(tmp_path, network(250, FAULTS[fault], seed=1))
    error = refused(request)
    said: list[str] = []
    found = reduced(request, error, by_name=by_name, on_progress=said.append)
    assert found.complete and found.total > 250
    left = [found.subject.table.entries[number].node for number in sorted(found.nodes)]
    assert CULPRITS[fault] in [node.op_type for node in left]
    count = sum(len(graph.node) for graph in all_graphs(found.model.proto.graph))
    assert len(left) <= count <= FEW
    assert any(node.name.startswith("fault/") for node in left)
    assert said and f"of {found.total} nodes fail" in said[-1]
    assert children() == before and os.listdir(tmp_path) == ["network.onnx"]
    kept = tmp_path / "kept.onnx"
    save_refused(found, kept)
    again = replace(
        request,
        onnx_path=kept,
        profiles=tuple(filter(None, found.cut.profiles)),
        optimization_level=found.level,
    )
    assert refused(again).problems[0].what.partition("TensorRT says: ")[0]


def test_the_message_names_the_nodes_with_all_that_they_read(tmp_path: Path) -> None:
    request = request_of(tmp_path, network(60, FAULTS["gathered_int8"]))
    error = refused(request)
    found = reduced(request, error)
    (line,) = node_lines(found)
    assert line == (
        "'fault/gathered' (Gather) reads 'fault/table' (constant int8[40, 1]), 'fault/index' (int64[8])"
    )
    (problem,) = explained(error, found, tmp_path / "kept.onnx", "do this").problems
    assert "Quantized constant (fault/table) is only allowed before DQ" in problem.what
    assert problem.what.endswith(line) and "1 of its " in problem.what
    assert problem.where.endswith("network.onnx, node 'fault/gathered' (Gather)")
    assert problem.fix.startswith("do this; ") and f"trtsmith check {tmp_path / 'kept.onnx'}" in problem.fix


def plugin_request(folder: Path, library: Path, mode: int, **options: object) -> BuildRequest:
    """200 nodes with one of a plugin in their middle, which ends the process, or hangs, when it is parsed."""
    relus = [f"[relu{n}] v{n + 1} = Relu (v{n})" for n in range(200)]
    relus[120] = identity("v120", "p", mode) + " v121 = Relu (p)"
    text = f"(float[2,3] v0) => (float[2,3] v200) <float[2,3] p> {{ {' '.join(relus)} }}"
    return BuildRequest(
        written(folder / "m.onnx", text),
        folder / "engine",
        plugin_libraries=(library,),
        plugins=(PluginUse("identity1", "Identity", "1", "trtsmith_test", fields(mode)),),
        flavour=FLAVOUR,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("mode", "how"), [(ABORT, "SIGABRT"), (SEGFAULT, "SIGSEGV")])
def test_a_crash_is_reduced(tmp_path: Path, library: Path, mode: int, how: str) -> None:
    before = children()
    request = plugin_request(tmp_path, library, mode)
    error = refused(request)
    found = reduced(request, error)
    (number,) = found.nodes
    assert found.subject.table.entries[number].node.name == "identity1"
    (problem,) = explained(error, found, None).problems
    assert how in problem.what and "'identity1' (trtsmith_test::Identity)" in problem.what
    assert children() == before


def test_a_build_that_hangs_is_reduced(tmp_path: Path, library: Path) -> None:
    before = children()
    request = plugin_request(tmp_path, library, HANG, timeout_s=3.0)
    found = reduced(request, refused(request), limit_s=60.0)
    assert "identity1" in [found.subject.table.entries[n].node.name for n in found.nodes]
    assert len(found.nodes) <= FEW and children() == before


def test_the_time_is_kept(tmp_path: Path, library: Path) -> None:
    """What was found until then is given back, and said to be unfinished."""
    request = plugin_request(tmp_path, library, HANG, timeout_s=3.0)
    error = refused(request)
    found = reduce_refusal(request, error, flavour=FLAVOUR, limit_s=7.0, by_name=False)
    assert found is not None and not found.complete and found.seconds < 12
    assert "perhaps fewer (the search ended after " in explained(error, found, None).problems[0].what


def test_a_search_that_stays_large_ends_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is smaller than the whole: the search ends by what is left of its patience, and not of its time."""
    request = request_of(tmp_path, network(250, FAULTS["gathered_int8"]))
    error = refused(request)
    tried, skipped = Trials.tried, [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + skipped[0])

    def of_whole(trials: Trials, sets: Sequence[frozenset[int]]) -> frozenset[int] | None:
        count = len(trials.subject.table.entries)
        whole = [nodes for nodes in sets if len(nodes) == count]
        if not whole and not trials.is_late:
            skipped[0] += 20
        return tried(trials, whole)

    monkeypatch.setattr(Trials, "tried", of_whole)
    monkeypatch.setattr(trials_module, "time", clock)
    found = reduced(request, error, by_name=False, limit_s=900.0)
    assert not found.complete and len(found.nodes) == found.total and 100 <= skipped[0] < 200


def test_a_refusal_that_does_not_come_again_is_not_reduced(tmp_path: Path) -> None:
    request = request_of(tmp_path, network(20))
    error = refused(request_of(tmp_path, network(20, FAULTS["gathered_int8"])))
    request_of(tmp_path, network(20))
    assert reduce_refusal(request, error, flavour=FLAVOUR, limit_s=60.0) is None


def test_a_model_that_cannot_be_saved_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(tmp_path, network(20, FAULTS["gathered_int8"]))
    found = reduced(request, refused(request))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UsageError, match="No space left"):
        save_refused(found, out / "kept.onnx")
    monkeypatch.undo()
    assert os.listdir(out) == []


def test_weights_are_read_where_they_are(tmp_path: Path) -> None:
    """External data of a model in a folder that cannot be written, which is refused for what is behind the weights."""
    folder = tmp_path / "given"
    folder.mkdir()
    proto = network(40, FAULTS["squeeze_without_axes"])
    nodes = proto.graph.node
    nodes.append(helper.make_node("Mul", [nodes[-1].output[0], "much"], ["z"], "last"))
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(SHAPE, np.float32), "much"))
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    request = request_of(folder, proto, external=True)
    error = refused(request)
    before = sorted(os.listdir(folder))
    folder.chmod(0o555)
    try:
        found = reduced(request, error, by_name=False)
    finally:
        folder.chmod(0o755)
    assert [found.subject.table.entries[n].node.op_type for n in found.nodes] == ["Squeeze"]
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("default_signals")
def test_children_end_with_their_parent(
    tmp_path: Path, library: Path, start: Callable[..., subprocess.Popen[str]], ending: signal.Signals
) -> None:
    """Ctrl-C ends the trials and leaves no file."""
    request = plugin_request(tmp_path, library, HANG, timeout_s=3.0)
    (tmp_path / "request.json").write_text(request.to_text())
    code = """
import sys
from pathlib import Path
from trtsmith.converter.engine.builder.build import build
from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.engine.reduction import reduce
from trtsmith.converter.engine.reduction import trials as trials_module
from trtsmith.converter.engine.reduction.reduce import reduce_refusal
from trtsmith.converter.base.errors import BuildRefused
request = BuildRequest.from_json(Path(sys.argv[1]).read_text())
search = reduce._search
def told(*arguments):
    print("searching", flush=True)
    return search(*arguments)
reduce._search = told
try:
    build(request)
except BuildRefused as error:
    reduce_refusal(request, error, flavour="tensorrt_rtx", limit_s=60)
"""
    parent = start(
        [sys.executable, "-c", code, str(tmp_path / "request.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=checkout_environment(TMPDIR=tmp_path),
    )
    assert parent.stdout is not None
    with parent.stdout as lines:
        assert any(line.strip() == "searching" for line in lines)
        while not (workers := children_of(parent)):
            pass
        parent.send_signal(ending)
        parent.wait(timeout=120)
    assert all(map(has_ended, workers))
    if ending == signal.SIGINT:
        assert list(tmp_path.glob("trtsmith-*")) == []
