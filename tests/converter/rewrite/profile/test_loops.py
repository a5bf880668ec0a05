"""Ranges in loops hold in every run and after the last: growing states, early ends, loops that never run."""

from pathlib import Path

import numpy as np
import pytest

from tests.converter.rewrite.profile.soundness import analysed, check_run
from tests.converter.rewrite.running import loaded
from trtsmith.converter.base.options.shapes import parse_shapes
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.profile.profile_ranges import ranges_of
from trtsmith.converter.rewrite.rewrite import rewrite

HEAD = """zero = Constant <value = int64 {0}> ()  one = Constant <value = int64 {1}> ()
    true = Constant <value = bool {1}> ()
    three = Constant <value = int64 {3}> ()  ones = Constant <value = int64[1] {1}> ()
    shape = Shape (x)  rows = Gather (shape, zero)  columns = Gather (shape, one)"""

GROWS = """z, w, all = Loop (columns, true, x, one) <
    body = b (int64 i, bool c, float[p, q] s, int64 k) => (bool d, float[e, f] t, int64 l, int64 width) {
        d = Identity (c)
        inner = Shape (s)
        width = Gather (inner, zero)
        same = Equal (width, rows)
        t = If (same) <
            then_branch = g () => (float[u, v] a) { a = Concat <axis = 0> (s, s) },
            else_branch = h () => (float[m, n] r) { r = Concat <axis = 0> (x, s) }
        >
        l = Add (k, one)
    }>
    after = Shape (z)  y = Add (after, w)"""

ENDS_EARLY = """z, all = Loop (three, true, x) <
    body = b (int64 i, bool c, float[p, q] s) => (bool d, float[e, f] t, float[u, v] kept) {
        t = Add (s, s)
        kept = Relu (t)
        d = Less (i, one)
    }>
    y = Shape (all)"""

NEVER_RUNS = """none = Sub (rows, rows)
    z, all = Loop (none, true, x) <
    body = b (int64 i, bool c, float[p, q] s) => (bool d, float[e, f] t, float[u, v] kept) {
        d = Identity (c)
        t = Concat <axis = 1> (s, s)
        kept = Relu (s)
    }>
    y = Shape (z)"""

COUNTS = """z, all = Loop (three, true, x) <
    body = b (int64 i, bool c, float[p, q] s) => (bool d, float[e, f] t, int64 kept) {
        d = Identity (c)
        few = Less (i, three)
        first = Less (i, one)
        chosen = Where (few, i, rows)
        t = If (first) <
            then_branch = g () => (float[u, v] a) { a = Neg (s) },
            else_branch = h () => (float[m, n] r) { r = Exp (s) }
        >
        kept = Add (chosen, columns)
    }>
    y = Shape (all)"""

SCANS = """y, z = Scan <num_scan_inputs = 1, body = b (float[q] s, float[q] r) => (float[e] t, float[f] kept) {
        t = Add (s, r)
        kept = Concat <axis = 0> (s, r)
    }> (start, x)"""


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (GROWS, "(float[N, L] x) => (int64[a] y)"),
        (ENDS_EARLY, "(float[N, L] x) => (int64[a] y)"),
        (NEVER_RUNS, "(float[N, L] x) => (int64[a] y)"),
        (COUNTS, "(float[N, L] x) => (int64[a] y)"),
        (SCANS, "(float[N, L] x, float[L] start) => (float[a] y)"),
    ],
    ids=["grows", "ends early", "never runs", "counts", "scans"],
)
@pytest.mark.parametrize("shapes", ["x=1x2:2x4:3x5", "x=2x4", "x=1x3:2x3:4x3"])
def test_loops(body: str, inputs: str, shapes: str, tmp_path: Path) -> None:
    head = "" if "Scan" in body else HEAD
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {inputs} {{ {head} {body} }}'
    model = loaded(text, tmp_path)
    (profile,) = parse_shapes([shapes]).values()
    given = {"x": profile}
    if "start" in inputs:
        given |= parse_shapes(
            ["start=" + ":".join(str(s[1]) for s in (profile.min, profile.opt, profile.max))]
        )
    ranges = ranges_of([given])
    graph, analysis = analysed(model, ranges)
    rewritten = rewrite(model, profile=ranges).model
    for end in ("min", "opt", "max"):
        feeds = {name: np.ones(getattr(sizes, end), np.float32) for name, sizes in given.items()}
        check_run(graph, analysis, feeds)
        np.testing.assert_array_equal(run(rewritten, feeds)["y"], run(model, feeds)["y"])
