"""If and Loop as in speech and detection models: state through branches, loops that build lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.running import assert_close, engine_size, loaded, op_types, problems_of
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.rules.control_flow.loop_bodies import loop_inputs_to_freeze, obstacle

HEAD = '<ir_version: 8, opset_import: ["" : 16, "com.microsoft" : 1]>'
WEIGHTS = "float[1, 32, 4] w, float[1, 32, 8] r, float[1, 64] b"


def check(text: str, inputs: dict[str, np.ndarray], folder: Path, **options: object) -> Rewritten:
    """The rewritten graph's numbers are the original's, and TensorRT builds it."""
    model = loaded(text, folder)
    expected = run(model, inputs)
    result = rewrite(model, **options)  # type: ignore[arg-type]
    assert [problem.what for problem in plan(result).problems] == []
    left = {value.name for value in result.model.proto.graph.input}
    got = run(expand(result.model), {name: value for name, value in inputs.items() if name in left})
    assert_close(got, expected, rtol=1e-5, atol=1e-6)
    assert engine_size(result, folder) > 0
    return result


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_a_recurrent_state_goes_through_the_branch_of_the_rate(tmp_path: Path) -> None:
    """A voice detector's graph: one network for each sampling rate, chosen by an input that is frozen."""

    def branch(name: str, after: str) -> str:
        states = f"float[1, 1, 8] {name}_h, float[1, 1, 8] {name}_c"
        return f"""{name}_branch = {name} () => (float[3, 1, 1, 8] {name}_y, {states}) {{
            {name}_all, {name}_h, {name}_c = LSTM <hidden_size = 8> (x, w, r, b, , h, c)
            {name}_y = {after} ({name}_all)
        }}"""

    text = f"""{HEAD} g (float[3, 1, 4] x, float[1, 1, 8] h, float[1, 1, 8] c, {WEIGHTS}, int64 rate)
        => (float[3, 1, 1, 8] y, float[1, 1, 8] nh, float[1, 1, 8] nc) {{
        wanted = Constant <value = int64 {{16000}}> ()
        fast = Equal (rate, wanted)
        y, nh, nc = If (fast) <{branch("then", "com.microsoft.QuickGelu")}, {branch("else", "Neg")}>
    }}"""
    inputs = {
        "x": random(3, 1, 4), "h": random(1, 1, 8), "c": random(1, 1, 8), "w": random(1, 32, 4),
        "r": random(1, 32, 8), "b": random(1, 64), "rate": np.array(16000),
    }  # fmt: skip
    weights = {name: inputs[name] for name in ("w", "r", "b", "rate")}
    result = check(text, inputs, tmp_path, freeze=weights)
    assert "If" not in op_types(result.model)


def test_both_branches_of_a_live_if_are_rewritten(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[3] x, bool on) => (float[3] y) {{
        y = If (on) <
            then_branch = a () => (float[3] p) {{ p = com.microsoft.QuickGelu (x) }},
            else_branch = b () => (float[3] q) {{
                parts = SequenceConstruct (x, x)
                last = Constant <value = int64 {{-1}}> ()
                taken = SequenceAt (parts, last)
                q = Neg (taken)
            }}
        >
    }}"""
    for on in (True, False):
        result = check(text, {"x": random(3), "on": np.array(on)}, tmp_path)
        assert op_types(result.model) == ["If"]


def test_a_sequence_of_an_outer_graph_is_read_in_a_branch(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[3] x, bool on) => (float[6] y) {{
        z = Neg (x)
        parts = SequenceConstruct (x, z)
        y = If (on) <
            then_branch = a () => (float[6] p) {{ p = ConcatFromSequence <axis = 0> (parts) }},
            else_branch = b () => (float[6] q) {{ more = ConcatFromSequence <axis = 0> (parts)  q = Sin (more) }}
        >
    }}"""
    check(text, {"x": random(3), "on": np.array(True)}, tmp_path)


def test_a_loop_that_tensorrt_runs_stays(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[4] x) => (float[4] y) {{
        m = Constant <value = int64 {{3}}> ()
        t = Constant <value = bool {{1}}> ()
        y = Loop (m, t, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] r) {{
            d = Identity (c)
            r = Sin (s)
        }}>
    }}"""
    result = check(text, {"x": random(4)}, tmp_path)
    assert not result.rewrites
    assert op_types(result.model) == ["Constant", "Constant", "Loop"]


def test_operators_in_the_body_of_a_loop_are_rewritten_there(tmp_path: Path) -> None:
    """No need to write the body out."""
    text = f"""{HEAD} g (float[4] x) => (float[4] y) {{
        m = Constant <value = int64 {{300}}> ()
        t = Constant <value = bool {{1}}> ()
        y = Loop (m, t, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] r) {{
            d = Identity (c)
            r = com.microsoft.QuickGelu (s)
        }}>
    }}"""
    assert "Loop" in op_types(check(text, {"x": random(4)}, tmp_path).model)


def test_a_loop_in_a_loop(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[4] x) => (float[24] y) {{
        m = Constant <value = int64 {{2}}> ()
        t = Constant <value = bool {{1}}> ()
        empty = SequenceEmpty ()
        rows = Loop (m, t, empty) <body = b (int64 i, bool c, seq(float[4]) s) => (bool d, seq(float[4]) r) {{
            d = Identity (c)
            n = Constant <value = int64 {{3}}> ()
            r = Loop (n, c, s) <body = e (int64 j, bool f, seq(float[4]) u) => (bool k, seq(float[4]) v) {{
                k = Identity (f)
                sum = Add (i, j)
                scale = Cast <to = 1> (sum)
                row = Mul (x, scale)
                v = SequenceInsert (u, row)
            }}>
        }}>
        y = ConcatFromSequence <axis = 0> (rows)
    }}"""
    check(text, {"x": random(4)}, tmp_path)


SLICE = """d = Identity (c)
    zero = Constant <value = int64[1] {0}> ()
    one = Constant <value = int64[1] {1}> ()
    start = Unsqueeze (i, zero)
    end = Add (start, one)
    part = Slice (x, zero, end, zero)
    r = ReduceSum <keepdims = 1> (part, zero)"""
SMALL = "small = Less (s, r)  d = Reshape (small, one)"


@pytest.mark.parametrize(
    ("trips", "condition", "body", "word"),
    [
        ("n", "on", SLICE, "'n' gives its number of runs"),
        ("m", "on", SLICE, "'on' is computed at run time"),
        ("m", "t", SLICE.replace("d = Identity (c)", "") + f"  {SMALL}", "may end it before 3 runs"),
        ("m", "t", SLICE.replace("Identity (c)", "Less (i, n)"), "sizes known only at run time"),
        ("", "t", SLICE, "only its condition ends it"),
        ("huge", "t", SLICE, "nodes"),
    ],
)
def test_loops_that_cannot_be_written_out_say_why(
    trips: str, condition: str, body: str, word: str, tmp_path: Path
) -> None:
    text = f"""{HEAD} g (float[4] x, float[1] z, int64 n, bool on) => (float[1] y) {{
        m = Constant <value = int64 {{3}}> ()
        huge = Constant <value = int64 {{1000000}}> ()
        t = Constant <value = bool {{1}}> ()
        y = Loop ({trips}, {condition}, z) <body = b (int64 i, bool c, float[1] s) => (bool d, float[1] r) {{ {body} }}>
    }}"""
    model = loaded(text, tmp_path)
    problems = plan(rewrite(model)).problems
    assert len(problems) == 1 and word in problems[0].what
    assert all(problems[0].to_json().values())
    frozen = {name for name in (trips, condition) if name in ("n", "on")}
    assert loop_inputs_to_freeze(model.proto) == frozen
    assert "Slice" in obstacle(model.proto.graph.node[3].attribute[0].g)


def test_a_scan_that_its_opset_has_not_may_lack_its_body(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 3]> g () => (float[2] y) { y = Scan () }'
    )
    (problem,) = problems_of(model, tmp_path)
    assert "'scans' cannot read it" in problem.what and "'y' (Scan)" in problem.where


def test_nothing_runs_no_times(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[4] x, float[1] z) => (float[1] y) {{
        m = Constant <value = int64 {{-2}}> ()
        t = Constant <value = bool {{1}}> ()
        k = Loop (m, t, z) <body = b (int64 i, bool c, float[1] s) => (bool d, float[1] r) {{ {SLICE} }}>
        y = Neg (k)
    }}"""
    check(text, {"x": random(4), "z": random(1)}, tmp_path)


def test_nodes_in_copies_of_a_branch_share_no_name(tmp_path: Path) -> None:
    """onnxruntime refuses a graph with two nodes of one name, into which it brings branches when it knows a condition."""
    model = loaded(
        """<ir_version: 8, opset_import: ["" : 18]> g (float[3, 2] x, bool[3] choice) => (float[3, 2] y)
        <int64 three = {3}> {
            none = SequenceEmpty ()
            rows = Loop (three, , none) <body = b (int64 i, bool c, seq(float[2]) s) => (bool d, seq(float[2]) r) {
                d = Identity (c)  row = Gather (x, i)  chosen = Gather (choice, i)
                other = If (chosen) <
                    then_branch = t () => (float[2] p) { [named] p = Sin (row) },
                    else_branch = e () => (float[2] q) { q = Cos (row) }>
                r = SequenceInsert (s, other)
            }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
        }""",
        tmp_path,
    )
    result = rewrite(model).model.proto
    names = [node.name for part in all_graphs(result.graph) for node in part.node if node.op_type == "Sin"]
    assert len(names) == 3 and names.count("named") == 1
    assert len({*filter(None, names)}) == len([*filter(None, names)])
