"""Failures of one kind share places and reasons, but not names and sizes."""

from __future__ import annotations

import pytest

from trtsmith.converter.base.errors import BuildRefused
from trtsmith.converter.engine.builder.explain import explain
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.reduction.trials import nodes_named, same, signature_of

SQUEEZE = (
    "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (IShuffleLayer {0}: {0}: ISqueezeLayer without an axes "
    "input requires dimension {1} to not be 1 at runtime. In processCheck at /_src/optimizer/shapeof/graphShapeAnalyzer.cpp:"
    "1066 In analyzeShapes at /_src/optimizer/shapeof/graphShapeAnalyzer.cpp:2825)"
)
MYELIN = (
    "Error Code 1: Myelin ([shape.cpp:175: ~op_constraints_msg_streamer_t] Error during shape inference of {0} : "
    "f32[1, 8]{{1, 0}} = {1}({0}, b), axis=0 Error is: {2} In compileGraph at /_src/optimizer/myelin/codeGenerator.cpp:2012)"
)
LOOP = "Assertion failed: false: TensorRT cannot infer the shape of {0} since no trip limit was set. [importLoop]"
SCOPE = "Error Code 2: Internal Error (Assertion {0} failed. At graphScope.cpp::analyze::{1})"
EXTENT = (
    "The extent of dimension i (0) of indices ({0}) must be less than or equal to the extent of data (1)."
)


def refusal(*messages: str) -> BuildRefused:
    return BuildRefused([explain(message, "model.onnx", rtx=True) for message in messages])


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (SQUEEZE.format("a", 0), SQUEEZE.format("/b/squeeze_2", 1), True),
        (SQUEEZE.format("a", 0), SQUEEZE.replace("1066", "1070").format("a", 0), False),
        (
            MYELIN.format("x_1", "scatter_elements", EXTENT.format(4)),
            MYELIN.format("y", "scatter_nd", EXTENT.format(9)),
            True,
        ),
        (
            MYELIN.format("x", "gather", EXTENT.format(4)),
            MYELIN.format("x", "gather", "Ranks of operands differ."),
            False,
        ),
        (LOOP.format("a"), LOOP.format("'/loop/row_3'"), True),
        (LOOP.format("a"), LOOP.format("a").replace("importLoop", "importScan"), False),
        (SCOPE.format("a.rank == b.rank", 471), SCOPE.format("false", 471), True),
        (SCOPE.format("false", 471), SCOPE.format("false", 472), False),
        ("no message", "no message", True),
        ("no message", "Insufficient memory", False),
    ],
)
def test_what_is_alike(one: str, other: str, alike: bool) -> None:
    assert same(signature_of(refusal(one)), signature_of(refusal(other))) is alike


def test_one_reason_of_several_is_enough() -> None:
    several = signature_of(refusal(LOOP.format("a"), SQUEEZE.format("a", 0)))
    assert same(several, signature_of(refusal(SQUEEZE.format("b", 0))))
    assert not same(several, signature_of(refusal("Insufficient memory")))


def test_endings_of_processes() -> None:
    def died(how: str, phase: str = "building the engine", late: bool = False) -> ChildDied:
        return ChildDied(how, phase, "", timed_out=late)

    segfault = signature_of(died("died of SIGSEGV (a bad memory access)"))
    assert same(segfault, signature_of(died("died of SIGSEGV (a bad memory access)")))
    assert not same(segfault, signature_of(died("died of SIGABRT (it called abort)")))
    assert not same(
        segfault, signature_of(died("died of SIGSEGV (a bad memory access)", "parsing the model"))
    )
    late = signature_of(died("did not finish within 60 s", late=True))
    assert same(late, signature_of(died("did not finish within 9 s", late=True)))
    assert not same(late, signature_of(refusal("no message")))


def test_only_the_end_of_a_log_names_nodes() -> None:
    log = "VERBOSE: Parsing node: first [Relu]\nVERBOSE: Parsing node: last [Relu]\nterminate called\n"
    said = nodes_named(ChildDied("died", "parsing the model", log, timed_out=False))
    assert "last" in said and "terminate called" in said and "first" not in said
    assert "last" not in nodes_named(ChildDied("died", "building the engine", log, timed_out=False))
