"""The line `next:` of a verdict: flags and commands that are complete, and do what they say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import Cli, Ran
from tests.converter.models import written

NMS = """(float[1,60,4] boxes, float[1,3,60] scores) => (float[1,K,6] dets)
<int64[1] most = {20}, float[1] overlap = {0.5}, float[1] floor = {0.25}, int64[1] one = {1}, int64[1] zero = {0},
 int64[2] pick = {1, 2}, int64[1] two = {2}, int64[1] three = {3}, int64[3] flat = {1, -1, 6}> {
 b = Identity (boxes) s = Identity (scores)
 chosen = NonMaxSuppression (b, s, most, overlap, floor)
 class = Slice (chosen, one, two, one) box = Slice (chosen, two, three, one)
 image = Slice (chosen, zero, one, one)
 at = Concat <axis = 1> (image, box) which = Concat <axis = 1> (image, class, box)
 rows = GatherND (b, at) values = GatherND (s, which) value = Unsqueeze (values, one) label = Cast <to = 1> (class)
 whole = Concat <axis = 1> (rows, value, label) dets = Reshape (whole, flat) }"""

DIFFERENCE = "(float[8,64] x) => (float[8,64] y) { a = MatMul (x, k) b = MatMul (x, m) y = Sub (a, b) }"


def detections(folder: Path) -> tuple[Path, Path]:
    """Scores that are equal in float16, so that rounding decides which boxes are suppressed."""
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 60, (1, 60, 2))
    boxes = np.concatenate([corner, corner + 40], 2).astype(np.float32)
    scores = (0.6 + rng.uniform(0, 1e-4, (1, 3, 60))).astype(np.float32)
    np.savez(folder / "in.npz", boxes=boxes, scores=scores)
    return written(folder / "m.onnx", NMS), folder / "in.npz"


def difference(folder: Path) -> tuple[Path, Path]:
    """Products that are nearly the same, of which rounding is a large part of the difference."""
    rng = np.random.default_rng(0)
    k = rng.standard_normal((64, 64)).astype(np.float16).astype(np.float32)
    m = k + rng.standard_normal((64, 64)).astype(np.float32) * np.float32(0.015)
    np.savez(folder / "in.npz", x=rng.standard_normal((8, 64)).astype(np.float32))
    return written(folder / "m.onnx", DIFFERENCE, {"k": k, "m": m}), folder / "in.npz"


@pytest.mark.parametrize(("network", "why"), [(detections, "detections match"), (difference, "rounding")])
def test_the_tolerance_that_is_advised_settles_what_rounding_decides(
    network: Callable[[Path], tuple[Path, Path]], why: str, tmp_path: Path, cli: Cli
) -> None:
    model, inputs = network(tmp_path)
    flags = "--precision fp16 --io-precision --flavour tensorrt_rtx --target sm86 --force"
    command = ("convert -q", model, "-o", tmp_path / "m.plan", "--inputs", inputs, *flags.split())
    ran = cli(*command)
    assert ran.code == 4 and why in ran.out, ran
    told = re.search(
        r"^next: (--atol \S+) accepts these differences; or convert with --precision fp32$", ran.out, re.M
    )
    assert told is not None, ran.out
    assert cli(*command, *shlex.split(told[1])).code == 0


def next_command(ran: Ran, tail: str) -> list[str]:
    """The words of the command that the verdict advises, which ends before `tail`."""
    told = re.search(rf"^next: trtsmith (.+) {tail}$", ran.out, re.M)
    assert told is not None, ran.out
    return shlex.split(told[1])


def test_the_search_that_is_advised_runs_as_it_is_written(here: Path, cli: Cli) -> None:
    """It has the sizes, inputs and tolerances of the conversion, and the flags that it prints in turn settle it."""
    difference(here)
    engine = "-o m.plan --flavour tensorrt_rtx --target sm86 --force --precision fp16"
    convert = f"convert -q m.onnx {engine} --inputs in.npz --rtol 1e-4 --atol y:1e-5"
    ran = cli(convert)
    assert ran.code == 3, ran
    found = cli(shlex.join(next_command(ran, "finds the nodes to keep in float32")))
    assert found.code == 3 and "no engine was run" in found.out, found
    told = re.search("what to do: add (--keep-fp32 .+) to the conversion", found.out)
    assert told is not None and cli(f"{convert} {told[1]}").code == 0, found


def test_the_search_for_generated_inputs_has_the_sizes(here: Path, cli: Cli) -> None:
    text = DIFFERENCE.replace("float[8,64]", "float[N,64]")
    difference(here)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load("m.onnx").graph.initializer}
    written(here / "my model.onnx", text, weights)
    flags = "--flavour tensorrt_rtx --target sm86 --precision fp16 --rtol 1e-5 --minShapes x:1x64 --maxShapes x:4x64"
    ran = cli("convert -q", "my model.onnx", "-o", "m.plan", *flags.split())
    words = next_command(ran, "finds the nodes to keep in float32")
    assert words[:4] == ["locate", "my model.onnx", "--precision", "fp16"] and "x=1x64:4x64:4x64" in words
    assert cli("", *words).code == 3


PRODUCT = "(float[2,3] x) => (float[2,4] y) { y = MatMul (x, w) }"
EMPTY = "(float[0,3] x) => (float[0,3] y) { y = Relu (x) }"
SELECTION = "(float[1,9,4] b, float[1,2,9] s) => (int64[K,3] y) { y = NonMaxSuppression (b, s) }"
NO_INPUTS_HELP = "next: export the model again, .*: no inputs help"


@pytest.mark.parametrize(
    ("model", "weight", "element", "next_line", "note"),
    [
        (PRODUCT, np.nan, 1, NO_INPUTS_HELP, "initializer 'w' has 12 NaN values"),
        (PRODUCT, 1, np.nan, "next: give inputs without NaN: --inputs FILE.npz", "input 'x' has 6 NaN values"),
        (EMPTY, 1, None, NO_INPUTS_HELP, "output 'y' is always empty: its size at axis 0 is 0 in the model"),
        (SELECTION, 1, None, NO_INPUTS_HELP, "NonMaxSuppression 'y' selects no box: its max_output_boxes_per_class is 0"),
    ],
)  # fmt: skip
def test_other_inputs_are_advised_only_where_they_help(
    model: str, weight: float, element: float | None, next_line: str, note: str, here: Path, cli: Cli
) -> None:
    written(here / "m.onnx", model, {"w": np.full((3, 4), weight, np.float32)})
    np.savez("x.npz", x=np.full((2, 3), element or 1, np.float32))
    ran = cli("convert -q m.onnx -o m.plan", *([] if element is None else ["--inputs", "x.npz"]))
    assert ran.code == 4 and f"\n{note}\n" in ran.out, ran
    assert re.search(f"^{next_line}$", ran.out, re.M), ran.out
