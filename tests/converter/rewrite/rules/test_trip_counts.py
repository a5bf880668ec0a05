"""Counting loops: their runs, scan outputs, and reads at the counter agree with onnxruntime."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.running import assert_close, engine_size, fixed, loaded, problems_of
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
CONSTANTS = """
    zero = Constant <value = int64 {0}> ()  one = Constant <value = int64 {1}> ()  two = Constant <value = int64 {2}> ()
    first = Constant <value = int64[1] {0}> ()  single = Constant <value = int64[1] {1}> ()
    yes = Constant <value = bool {1}> ()
"""
HUGE = 2**63 - 1
NEXT = "k1 = Add (k, one)  d = Less (k1, n)"
SLICE = """from = Unsqueeze (k, first)  to = Add (from, single)
    part = Slice (x, from, to, first)  row = Squeeze (part, first)"""
STATE = "r = Sin (s)"


def counting(
    condition: str = NEXT,
    body: str = STATE,
    *,
    bound: str = "n = Constant <value = int64 {5}> ()",
    trips: int | str = HUGE,
    start: int = 0,
    first: str = "yes",
    inputs: str = "float[5, 4] x",
    collects: bool = True,
) -> str:
    """A Loop with a counter k and a state s, and an output for what it collects."""
    has = isinstance(trips, int)
    limit = f"m = Constant <value = int64 {{{trips}}}> ()" if has else ""
    wanted, made, collected = (", float[runs, 4] w", ", w", ", float[4] q") if collects else ("", "", "")
    return f"""{HEAD} g ({inputs}) => (float[4] y, int64 last{wanted}) {{
        {CONSTANTS} {limit} {bound}
        start = Constant <value = int64 {{{start}}}> ()
        z = Constant <value = float[4] {{1.0, 2.0, 3.0, 4.0}}> ()
        last, y{made} = Loop ({"m" if has else trips}, {first}, start, z) <
            body = b (int64 i, bool c, int64 k, float[4] s) => (bool d, int64 k1, float[4] r{collected}) {{
                {body}  {condition}  {"q = Neg (r)" if collects else ""}
            }}
        >
    }}"""


def check(text: str, feeds: list[dict[str, np.ndarray]], folder: Path) -> Rewritten:
    """Each output as onnxruntime's, shapes too, in every run."""
    original = loaded(text, folder)
    result = rewrite(original)
    assert [problem.what for problem in plan(result).problems] == []
    left = {value.name for value in result.model.proto.graph.input}
    for one in feeds:
        expected = run(original, one, optimise=False)
        got = run(expand(result.model), {name: value for name, value in one.items() if name in left})
        assert_close(got, expected, rtol=1e-6)
    return result


def builds(result: Rewritten, folder: Path, **profile: tuple[int, ...]) -> None:
    assert engine_size(result, folder, fixed(profile)) > 0


def loop_of(result: Rewritten) -> onnx.NodeProto:
    return next(node for node in result.model.proto.graph.node if node.op_type == "Loop")


def body_of(result: Rewritten) -> list[str]:
    body = next(a.g for a in loop_of(result).attribute if a.name == "body")
    return [node.op_type for node in body.node]


def rows(*lengths: int) -> list[dict[str, np.ndarray]]:
    return [{"x": np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)} for n in lengths]


COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")


@pytest.mark.parametrize(
    ("kind", "negated", "swapped", "step"),
    [
        *itertools.product(COMPARISONS, (False, True), (False, True), (1,)),
        *itertools.product(COMPARISONS, (False,), (False,), (3, -2)),
    ],
)
def test_comparisons_of_a_counter_with_a_number(
    kind: str, negated: bool, swapped: bool, step: int, tmp_path: Path
) -> None:
    """Bounds below, at and above the start; with at most 6 runs, as some of these never end."""
    operands = "k2, n" if not swapped else "n, k2"
    moved = f"by = Constant <value = int64 {{{step}}}> ()  k1 = Add (k, by)  k2 = Add (k1, two)"
    decided = f"p = {kind} ({operands})  d = {'Not' if negated else 'Identity'} (p)"
    for bound in (-7, -1, 0, 3, 4, 11):
        text = counting(
            f"{moved}  {decided}", bound=f"n = Constant <value = int64 {{{bound}}}> ()", trips=6, start=1
        )
        result = check(text, rows(5), tmp_path)
        assert result.found()
        assert not {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"} & set(body_of(result))


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("trips", [0, 3, HUGE, ""])
def test_a_bound_that_is_known_at_run_time(step: int, trips: int | str, tmp_path: Path) -> None:
    moved = f"by = Constant <value = int64 {{{step}}}> ()  k1 = Add (k, by)  d = LessOrEqual (k1, n)"
    text = counting(moved, bound="", trips=trips, inputs="int64 n")
    feeds = [{"n": np.array(n)} for n in (-(2**40), -1, 0, 1, 2, 3, 7, 12)]
    if trips == 0:
        assert "it never runs" in problems_of(text, tmp_path)[0].what
        return
    result = check(text, feeds, tmp_path)
    assert "Min" in {n.op_type for n in result.model.proto.graph.node} if trips == 3 else True


def test_a_bound_at_run_time_that_floats_compare(tmp_path: Path) -> None:
    """As tf2onnx compares: float32 holds the counter for longer than any loop runs, float16 or an unknown start does not."""
    words = "k1 = Add (k, one)  f = Cast <to = {0}> ({1})  g = Cast <to = {0}> ({2})  d = Less (f, g)"
    text = counting(words.format(1, "k1", "n"), bound="", trips="", inputs="int64 n")
    result = check(text, [{"n": np.array(n)} for n in (-1, 0, 1, 5, 12)], tmp_path)
    assert "Less" not in body_of(result)
    far = "k2 = Add (k1, n)  " + words.format(1, "k2", "two")
    for other in (words.format(10, "k1", "n"), far):
        text = counting(other, bound="", trips="", inputs="int64 n")
        (problem,) = problems_of(text, tmp_path)
        assert "which alone ends it" in problem.what


def test_conditions_that_are_put_together(tmp_path: Path) -> None:
    for words in (
        "a = Less (k1, n)  b = Less (i, two)  d = And (a, b)",
        "a = Less (k1, n)  b = Less (i, two)  d = Or (a, b)",
        "a = GreaterOrEqual (k1, n)  b = Greater (i, two)  o = Or (a, b)  d = Not (o)",
        "a = GreaterOrEqual (k1, n)  b = Greater (i, two)  o = And (a, b)  d = Not (o)",
        "a = Less (k1, n)  d = And (a, c)",
        "a = Less (k1, n)  b = Constant <value = bool {1}> ()  d = And (b, a)",
    ):
        result = check(counting(f"k1 = Add (k, one)  {words}"), rows(5), tmp_path)
        assert not {"And", "Or", "Less"} & set(body_of(result))


def test_what_an_exporter_writes_around_a_counter(tmp_path: Path) -> None:
    """Sums in float32, and "the same" as Unsqueeze, Add of 0, Squeeze; the condition as a number and back."""
    words = """
        f = Cast <to = 1> (k)  g = Constant <value = float {1.0}> ()  h = Add (f, g)  j = Cast <to = 7> (h)
        bf = Cast <to = 1> (n)  bg = Add (bf, g)  bound = Cast <to = 7> (bg)
        a = Less (j, bound)
        up = Unsqueeze (j, first)  nothing = Constant <value = int64[1] {0}> ()
        sum = Add (up, nothing)  k1 = Squeeze (sum, first)
        number = Cast <to = 7> (a)  same = Add (number, zero)  d = Cast <to = 9> (same)
    """
    result = check(counting(words), rows(5), tmp_path)
    assert "Less" not in body_of(result)
    builds(result, tmp_path)


def test_numbers_that_a_type_does_not_hold_are_not_read(tmp_path: Path) -> None:
    """2^24 + 1 is no float32: the counter stays where it is, and the loop runs to its limit."""
    words = """
        k1 = Add (k, one)  f = Cast <to = 1> (k)  g = Constant <value = float {1.0}> ()
        h = Add (f, g)  j = Cast <to = 7> (h)  d = LessOrEqual (j, n)
    """
    text = counting(words, bound=f"n = Constant <value = int64 {{{2**24}}}> ()", start=2**24 - 2, trips=9)
    result = check(text, rows(5), tmp_path)
    assert loop_of(result) and "Slice" in {node.op_type for node in result.model.proto.graph.node}


@pytest.mark.parametrize("first", ["yes", "no", "given", ""])
def test_the_condition_before_the_loop(first: str, tmp_path: Path) -> None:
    text = counting(
        bound="n = Shape <start = 0, end = 1> (x)  no = Constant <value = bool {0}> ()".replace(
            "n = Shape <start = 0, end = 1> (x)", "size = Shape (x)  n = Gather (size, zero)"
        ),
        first=first,
        inputs="float[t, 4] x, bool given",
    )
    if first == "no":
        assert "it never runs" in problems_of(text, tmp_path)[0].what
        return
    feeds = [one | {"given": np.array(on)} for one in rows(1, 2, 5) for on in (True, False)]
    result = check(text, feeds, tmp_path)
    assert "Less" not in body_of(result)


def test_a_condition_before_the_loop_that_sizes_decide(tmp_path: Path) -> None:
    """As tf2onnx writes it of Keras layers."""
    text = counting(
        bound="""size = Shape (x)  n = Gather (size, zero)  float = Cast <to = 1> (n)
            none = Constant <value = float {0.0}> ()  more = Less (none, float)  some = And (more, more)""",
        first="some",
        inputs="float[t, 4] x",
    )
    builds(check(text, rows(1, 2, 5), tmp_path), tmp_path, x=(5, 4))


@pytest.mark.parametrize(("counted", "stays"), [("n", True), ("other", False)])
def test_a_condition_that_says_whether_there_are_runs_stays(
    counted: str, stays: bool, tmp_path: Path
) -> None:
    """As in ONNX's body of Range: both the number of runs and the condition are casts of one value."""
    text = counting(
        "k1 = Add (k, one)  d = Identity (c)",
        bound=f"""size = Shape (x)  n = Gather (size, zero)  other = Gather (size, one)
            many = Cast <to = 1> (n)  m = Cast <to = 7> (many)
            count = Cast <to = 1> ({counted})  some = Cast <to = 9> ({"many" if stays else "count"})""",
        trips="m",
        first="some",
        inputs="float[t, u] x",
    )
    none_and_some = [{"x": np.ones(shape, np.float32)} for shape in ((0, 4), (3, 4), (3, 0))]
    assert bool(check(text, none_and_some, tmp_path).found()) is not stays


def test_a_number_of_runs_that_is_none_is_refused(tmp_path: Path) -> None:
    text = counting(
        bound="n = Constant <value = int64 {5}> ()  m = Constant <value = int64[0] {}> ()", trips="m"
    )
    (problem,) = problems_of(text, tmp_path)
    assert "its number of runs 'm' has 0 elements" in problem.what


def test_time_steps_as_keras_layers_have_them(tmp_path: Path) -> None:
    """tf2onnx writes a while loop: int32 counters, no limit, a bound of the graph's own, and outputs of all steps."""
    text = f"""{HEAD} g (float[batch, time, 4] x, float[4, 4] u, float[batch, 4] z)
        => (float[time2, batch, 4] y, float[batch, 4] h) {{
        {CONSTANTS}
        m = Constant <value = int64 {{{HUGE}}}> ()
        k0 = Constant <value = int32 {{0}}> ()  by = Constant <value = int32 {{1}}> ()
        steps = Transpose <perm = [1, 0, 2]> (x)
        shape = Shape (steps)  size = Slice (shape, first, single, first)  number = Squeeze (size, first)
        n = Cast <to = 6> (number)
        below = Less (k0, n)
        ka, kb, h, y = Loop (m, below, k0, k0, z) <
            body = b (int64 i, bool c, int32 ka_in, int32 kb_in, float[batch, 4] s)
                => (bool d, int32 ka_out, int32 kb_out, float[batch, 4] r, float[batch, 4] q) {{
                ka_out = Add (ka_in, by)  kb_out = Add (kb_in, by)
                at = Cast <to = 7> (kb_in)  from = Unsqueeze (at, first)  to = Add (from, single)
                part = Slice (steps, from, to, first)  row = Squeeze (part, first)
                sum = Add (row, s)  product = MatMul (sum, u)  r = Tanh (product)  q = Identity (r)
                below_a = Less (ka_out, n)  below_b = Less (kb_out, n)  d = And (below_a, below_b)
            }}
        >
    }}"""
    random = np.random.default_rng(0)
    feeds = [
        {
            name: random.standard_normal(shape).astype(np.float32)
            for name, shape in (("x", (batch, time, 4)), ("u", (4, 4)), ("z", (batch, 4)))
        }
        for batch, time in ((1, 1), (3, 7), (2, 4))
    ]
    result = check(text, feeds, tmp_path)
    assert {"Slice", "Less", "And"}.isdisjoint(body_of(result))
    builds(result, tmp_path, x=(2, 7, 4), u=(4, 4), z=(2, 4))


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        (f"{SLICE}  r = Add (s, row)", NEXT),
        (f"{SLICE.replace('k, first', 'i, first')}  r = Add (s, row)", NEXT),
        (f"end = Sub (n, one)  back = Sub (end, k)  {SLICE.replace('(k,', '(back,')}  r = Add (s, row)", NEXT),
        (
            """to = Add (k, one)  at = Range (k, to, one)
            part = Gather (x, at)  row = Squeeze (part, first)  r = Add (s, row)""",
            NEXT,
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fixed", [True, False])
def test_slices_and_ranges_at_the_counter(body: str, condition: str, fixed: bool, tmp_path: Path) -> None:
    """Also from the end, and of a length that is known only at run time."""
    given = "n = Constant <value = int64 {5}> ()" if fixed else "size = Shape (x)  n = Gather (size, zero)"
    inputs = "float[5, 4] x" if fixed else "float[t, 4] x"
    text = counting(condition, body, bound=given, inputs=inputs, collects=False)
    lengths = (5,) if fixed else (2, 3, 9)
    result = check(text, rows(*lengths), tmp_path)
    assert not {"Slice", "Range", "Less"} & set(body_of(result))
    builds(result, tmp_path, **({} if fixed else {"x": (9, 4)}))


def test_a_slice_of_two(tmp_path: Path) -> None:
    """Of an axis of one element, the first would have one: where the length is not known, that is not ruled out."""
    body = """both = Constant <value = int64[1] {2}> ()  from = Unsqueeze (k, first)  to = Add (from, both)
        part = Slice (x, from, to, first)  row = ReduceMax <axes = [0], keepdims = 0> (part)  r = Add (s, row)"""
    condition = "k1 = Add (k, one)  k2 = Add (k, two)  d = Less (k2, n)"
    result = check(counting(condition, body, collects=False), rows(5), tmp_path)
    assert not {"Slice", "Less"} & set(body_of(result))
    builds(result, tmp_path)
    bound = "size = Shape (x)  n = Gather (size, zero)"
    text = counting(condition, body, bound=bound, inputs="float[t, 4] x", collects=False)
    problems = problems_of(text, tmp_path)
    assert "may end beyond axis 0 of 'x'" in problems[0].what


def test_a_slice_that_may_leave_the_axis_is_none_of_a_fixed_length(tmp_path: Path) -> None:
    """In runs 5 and 6 it is empty: ONNX cuts it."""
    body = (
        SLICE.replace("row = Squeeze (part, first)", "row = ReduceSum <keepdims = 0> (part, first)")
        + "  r = Add (s, row)"
    )
    text = counting("k1 = Add (k, one)  d = Identity (c)", body, trips=7, collects=False)
    result = check(text, rows(5), tmp_path)
    assert "Loop" not in {node.op_type for node in result.model.proto.graph.node}
    dynamic = counting(
        "k1 = Add (k, one)  d = Identity (c)", body, trips=HUGE - 1, collects=False, inputs="float[t, 4] x"
    )
    problems = problems_of(dynamic, tmp_path)
    assert "may end beyond axis 0 of 'x'" in problems[0].what


def test_data_end_the_loop_and_slices_become_gathers(tmp_path: Path) -> None:
    ends = "sum = ReduceSum <keepdims = 0> (r)  most = Constant <value = float {11}> ()  small = Less (sum, most)"
    condition = f"{ends}  k1 = Add (k, one)  below = Less (k1, n)  d = And (small, below)"
    text = counting(condition, f"{SLICE}  r = Add (s, row)", trips="", collects=False)
    feeds = [{"x": np.full((5, 4), value, np.float32)} for value in (-1.0, 0.0, 0.1, 3.0)]
    result = check(text, feeds, tmp_path)
    assert "Slice" not in body_of(result) and "Less" in body_of(result)
    builds(result, tmp_path)


def test_what_a_loop_collects_that_data_end_is_cut_off(tmp_path: Path) -> None:
    """Asked of TensorRT-RTX 1.7.1, what a Loop collects is as long as its limit, whatever ends it."""
    ends = "sum = ReduceSum <keepdims = 0> (r)  most = Constant <value = float {11}> ()  small = Less (sum, most)"
    body = "add = Gather (x, zero)  r = Add (s, add)"
    feeds = [{"x": np.full((5, 4), value, np.float32)} for value in (-1.0, 0.1, 0.3, 3.0)]
    for limit, words in ((6, "d = Identity (small)"), ("", "below = Less (k1, n)  d = And (small, below)")):
        text = counting(f"{ends}  k1 = Add (k, one)  {words}", body, trips=limit)
        result = check(text, feeds, tmp_path)
        assert [node.op_type for node in result.model.proto.graph.node].count("Slice") == 1
        again = rewrite(result.model)
        assert not again.rewrites, "the same Slice again"
        builds(result, tmp_path)
    text = counting(f"{ends}  k1 = Add (k, one)  d = Identity (small)", body, trips="")
    problems = problems_of(text, tmp_path)
    assert "computes the condition 'd', which alone ends it" in problems[0].what


def test_a_loop_that_tensorrt_ends_by_its_condition_stays(tmp_path: Path) -> None:
    result = check(counting(collects=False), rows(5), tmp_path)
    assert not result.found() and "Less" in body_of(result)


def test_a_loop_in_a_loop_counts_to_the_outer_counter(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[6, 4] x) => (float[4] y) {{
        {CONSTANTS}
        n = Constant <value = int64 {{4}}> ()  z = Constant <value = float[4] {{0.0, 0.0, 0.0, 0.0}}> ()
        m = Constant <value = int64 {{{HUGE}}}> ()
        last, y = Loop (m, yes, zero, z) <
            body = b (int64 i, bool c, int64 k, float[4] s) => (bool d, int64 k1, float[4] r) {{
            k1 = Add (k, one)  d = Less (k1, n)
            kept, r = Loop (m, yes, zero, s) <
                body = a (int64 i2, bool c2, int64 j, float[4] s2) => (bool d2, int64 j1, float[4] r2) {{
                    j1 = Add (j, one)  d2 = LessOrEqual (j1, k)
                    from = Unsqueeze (j, first)  to = Add (from, single)
                    part = Slice (x, from, to, first)  row = Squeeze (part, first)
                    sum = Add (s2, row)  r2 = Sin (sum)
                }}>
        }}>
    }}"""
    result = check(text, rows(6), tmp_path)
    inner = next(
        n for a in loop_of(result).attribute if a.name == "body" for n in a.g.node if n.op_type == "Loop"
    )
    read = {node.op_type for a in inner.attribute if a.name == "body" for node in a.g.node}
    assert "Slice" not in read and "LessOrEqual" in read
    builds(result, tmp_path)


def test_states_of_one_element_and_spare_ones(tmp_path: Path) -> None:
    """As table recognisers have them: a flag that is a scalar first and a vector then, and states that nothing reads."""
    text = f"""{HEAD} g (float[5, 4] x) => (float[5, 4] y, int64[1] last) {{
        {CONSTANTS}
        m = Constant <value = int64[1] {{1024}}> ()  on = Constant <value = bool[1] {{1}}> ()
        n = Constant <value = int64 {{5}}> ()  dummy = Constant <value = float[1] {{0.0}}> ()
        whole = Identity (x)
        last, all, y, spare = Loop (m, on, zero, whole, dummy, dummy) <
            body = b (int64[1] i, bool[1] c, int64 k, float[5, 4] s, float[p] t, float[q] u)
                => (bool[1] d, int64[1] k2, float[5, 4] s1, float[5, 4] t1, float[4] u1) {{
                flat = Reshape (k, single)  to = Add (flat, single)
                row = Slice (s, flat, to, first)  back = Neg (row)
                at = Concat <axis = 0> (flat)  column = Unsqueeze (at, single)
                written = ScatterND (s, column, back)
                up = Unsqueeze (written, first)  nothing = Constant <value = float[1] {{0.0}}> ()  same = Add (up, nothing)
                s1 = Squeeze (same, first)  t1 = Identity (written)  u1 = Squeeze (back, first)
                k2 = Add (flat, single)  d = Less (k2, n)
            }}
        >
    }}"""
    result = check(text, rows(5), tmp_path)
    assert len(loop_of(result).input) == 4
    assert "Slice" not in body_of(result)
    builds(result, tmp_path)
