"""`trtsmith plugin bench`: the arithmetic, the loop and the report, on a fake machine."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from bench_table import bench_table, bench_tables
from tests.converter.cli.commands.running import refused, trtsmith
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.commands import plugin_bench
from trtsmith.converter.cli.reports.kernel_times import render
from trtsmith.converter.plugin.bench import kernel_bench
from trtsmith.converter.plugin.bench.kernel_bench import Ceilings, Measured, Times, Unavailable
from trtsmith.importers.opdef import Case, OpDef, Work
from trtsmith.importers.ops._multiscale_deformable_attention import DETECTOR, pixels
from trtsmith.importers.registry import OPS, by_name

RATES = Ceilings(4e12, {"float32": 5e13, "tf32": 4e14, "float16": 8e14, "bfloat16": 8e14}, 1.5)
HEAD = {
    "gpu": "Made up",
    "driver": "1.2",
    "packages": {"torch": "9.9"},
    "date": "2026-01-02T03:04:05Z",
    "command": "trtsmith plugin bench X",
}


def made(op: str, case: str) -> tuple[OpDef, Case, dict[str, np.ndarray]]:
    definition = by_name()[op]
    found = next(c for c in (*definition.cases, *definition.benchmarks) if c.name == case)
    return definition, found, found.inputs(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("op", "case", "dtype", "moved", "work"),
    [
        # 284 positions x 8 x 32; 2x33x8x2x4 = 4224 samples; output 2x33x256; 6 index numbers.
        (
            "MultiscaleDeformableAttention",
            "two_levels",
            "float16",
            2 * (2 * 284 * 256 + 3 * 4224 + 2 * 33 * 256) + 8 * 6,
            Work(4224 * (8 * 32 + 16)),
        ),
        # 2x9x8x7 = 1008 places; 12 channels, 3 offset groups, 8 outputs of 3 channels each.
        (
            "ModulatedDeformableConvolution",
            "groups_differ",
            "float32",
            4 * (2 * 12 * 56 + 2 * 54 * 56 + 2 * 27 * 56 + 8 * 3 * 9 + 8 + 2 * 8 * 56),
            Work(1008 * (12 * 8 + 3 * 16), 2 * 1008 * 8 * 3),
        ),
        (
            "DeformableConvolution",
            "no_bias",
            "bfloat16",
            2 * (8 * 30 + 18 * 30 + 8 * 8 * 9 + 8 * 30),
            Work(270 * (8 * 8 + 12), 2 * 270 * 8 * 8),
        ),
        ("MatrixInverse", "poses", "float32", 4 * 2 * 6 * 16, Work(2 * 6 * 64)),
    ],
)
def test_bytes_and_operations_are_those_counted_by_hand(
    op: str, case: str, dtype: str, moved: int, work: Work
) -> None:
    assert kernel_bench.requirements(*made(op, case), dtype) == (moved, work)


def test_every_operator_has_benchmarks_and_counts_its_work() -> None:
    for op in (op for op in OPS if op.tolerance and not op.data_dependent):
        names = [case.name for case in op.benchmarks]
        assert names and len(set(names)) == len(names), op.name
        assert op.work is not None, op.name
    assert [len(by_name()[f"{kind}DeformableConvolution"].benchmarks) for kind in ("Modulated", "")] == [5, 5]


@pytest.mark.parametrize(
    ("op", "case"),
    [
        ("MultiscaleDeformableAttention", "dino_decoder"),
        ("ModulatedDeformableConvolution", "dla_64x128x128"),
        ("MatrixInverse", "million_poses"),
    ],
)
def test_inputs_of_benchmarks_are_consistent(op: str, case: str) -> None:
    definition, found, inputs = made(op, case)
    shapes = {name: tuple(array.shape) for name, array in inputs.items()}
    assert definition.check(found.fields, shapes) == []
    assert all(np.isfinite(array).all() for array in inputs.values())


def test_local_samples_lie_two_pixels_around_their_query_in_every_level() -> None:
    _, _, inputs = made("MultiscaleDeformableAttention", "detr_encoder_local")
    away = inputs["sampling_locations"] - pixels(DETECTOR)[:, None, None, None]
    for level, (height, width) in enumerate(DETECTOR):
        deviation = away[0, :, :, level].std(axis=(0, 1, 2)) * (width, height)
        np.testing.assert_allclose(deviation, 2.0, rtol=0.02)
    np.testing.assert_allclose(
        pixels(DETECTOR)[[0, 166, 167]], [[0.5 / 167, 0.005], [166.5 / 167, 0.005], [0.5 / 167, 0.015]]
    )


def test_times_are_percentiles() -> None:
    times = Times.of([float(i) for i in range(100, -1, -1)])
    assert times == Times(median=50.0, minimum=0.0, p10=10.0, p90=90.0, count=101)
    with pytest.raises(ValueError, match="no times"):
        Times.of([])


@pytest.mark.parametrize(
    ("set_bytes", "memory", "sets"),
    [
        (10, 10**6, 31),  # 30 others are three times the cache of 100
        (1000, 10**6, 2),  # one other is ten times the cache
        (10, 55, 5),  # no more than there is memory
        (10, 5, 2),  # never the same twice in a row
        (0, 10**6, 301),
    ],
)
def test_others_flush_the_cache_between_two_runs_on_one_set(set_bytes: int, memory: int, sets: int) -> None:
    assert kernel_bench.rotation_sets(set_bytes, 100, memory) == sets
    assert kernel_bench.rotation_sets(1, 10**6, 10**9) == kernel_bench.MOST_SETS


def test_the_longer_time_binds() -> None:
    by_bytes = kernel_bench.limit(4_000_000, Work(1), "float32", RATES)
    assert (by_bytes.binding, by_bytes.floor) == ("bytes", pytest.approx(1.0))
    products = Work(flops=1, matrix_flops=8_000_000_000)
    assert kernel_bench.limit(1, products, "float16", RATES).floor == pytest.approx(10.0)
    assert kernel_bench.limit(1, products, "tf32", RATES).floor == pytest.approx(20.0)
    assert kernel_bench.limit(1, products, "float32", RATES).binding == "arithmetic"
    # What is no product runs in float32, whatever the dtype.
    assert kernel_bench.limit(1, Work(50_000_000), "float16", RATES).floor == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("dtype", "work", "error", "precision"),
    [
        ("float32", Work(1, 1), 3e-4, "tf32"),
        ("float32", Work(1, 1), 3e-7, "float32"),
        ("float32", Work(1), 3e-4, "float32"),  # without products there is nothing to round
        ("float16", Work(1, 1), 3e-4, "float16"),
    ],
)
def test_the_error_tells_tf32(dtype: str, work: Work, error: float, precision: str) -> None:
    assert kernel_bench.precision_of(dtype, work, error) == precision


class Subject:
    def __init__(self, owner: Machine) -> None:
        self.owner = owner

    def ours(self, count: int) -> Measured:
        return Measured(Times(10.0, 9.0, 9.5, 12.0, count), self.owner.error, 64)

    def close(self) -> None:
        self.owner.closed += 1


class Machine:
    """A GPU that is made up. error: of our kernel."""

    l2_bytes, memory = 50_000_000, 10**10

    def __init__(self, error: float = 1e-4) -> None:
        self.error = error
        self.closed = 0
        self.asked: list[tuple[str, str, int]] = []

    def ceilings(self) -> Ceilings:
        return RATES

    def subject(self, op: OpDef, case: Case, generated: Any, dtype: str, sets: int) -> Subject:
        self.asked.append((case.name, dtype, sets))
        return Subject(self)

    def baselines(
        self, subject: Subject, names: Sequence[str], count: int
    ) -> Mapping[str, Measured | Unavailable]:
        found: dict[str, Measured | Unavailable] = {
            "eager": Measured(Times(25.0, 24.0, 24.5, 27.0, count), 2e-4),
            "torchvision": Unavailable("torchvision has no such operator"),
        }
        return {name: found[name] for name in names if name in found}


def run(machine: Machine, dtypes: Sequence[str] = ("float16",)) -> tuple[dict[str, Any], list[int]]:
    plan = kernel_bench.select(["MultiscaleDeformableAttention"], ["dino_decoder"], dtypes, None, 30)
    saved: list[int] = []

    def save(document: dict[str, Any]) -> None:
        saved.append(sum(len(rows) for rows in document["ops"].values()))

    return kernel_bench.measure(plan, machine, HEAD, save, lambda text: None), saved


def test_every_dtype_has_a_row_that_is_saved_at_once() -> None:
    machine = Machine()
    document, saved = run(machine, ("float32", "float16"))
    assert saved == [1, 2]
    assert machine.closed == 2
    assert [asked[:2] for asked in machine.asked] == [
        ("dino_decoder", "float32"),
        ("dino_decoder", "float16"),
    ]
    assert machine.asked[0][2] == 1 + 6  # 25.1 MB a set, three times 50 MB between
    (row, _) = document["ops"]["MultiscaleDeformableAttention"]
    assert row["ours"]["gb_s"] == pytest.approx(row["bytes"] / 10e-6 / 1e9, rel=1e-3)
    assert row["ours"]["tflop_s"] == pytest.approx(row["flops"] / 10e-6 / 1e12, rel=1e-3)
    assert row["ours"]["of_limit"] == pytest.approx(row["limit_us"][row["binding"]] / 10, rel=1e-3)


def test_warm_runs_take_the_same_tensors() -> None:
    machine = Machine()
    plan = kernel_bench.select(
        ["MultiscaleDeformableAttention"], ["dino_decoder"], ("float16",), None, 30, warm=True
    )
    document = kernel_bench.measure(plan, machine, HEAD, lambda document: None, lambda text: None)
    assert machine.asked == [("dino_decoder", "float16", 1)]
    assert document["ops"]["MultiscaleDeformableAttention"][0]["sets"] == 1


def test_the_record_has_what_a_reader_needs() -> None:
    document, _ = run(Machine())
    assert document == json.loads(json.dumps(document, allow_nan=False))
    assert set(document) == {*HEAD, "format", "l2_bytes", "index_dtype", "ceilings", "ops"}
    assert set(document["ceilings"]) == {"copy_gb_s", "matmul_tflop_s", "empty_us"}
    (row,) = document["ops"]["MultiscaleDeformableAttention"]
    assert set(row) == {
        "case", "dtype", "precision", "bytes", "flops", "matrix_flops", "sets", "limit_us", "binding", "ours", "baselines",
    }  # fmt: skip
    times = {"median_us", "minimum_us", "p10_us", "p90_us", "count", "error"}
    assert set(row["ours"]) == times | {"workspace", "gb_s", "tflop_s", "of_limit", "tolerance", "right"}
    assert set(row["baselines"]["eager"]) == times | {"ratio"}
    assert row["baselines"]["eager"]["ratio"] == 2.5
    assert row["baselines"]["torchvision"] == {"unavailable": "torchvision has no such operator"}


@pytest.mark.parametrize("error", [0.1, float("inf"), float("nan")])
def test_a_wrong_result_is_said_everywhere(error: float) -> None:
    document, _ = run(Machine(error))
    json.dumps(document, allow_nan=False)
    assert not kernel_bench.all_right(document)
    assert "WRONG" in render(document)
    assert "**wrong**" in bench_table(document)
    assert kernel_bench.all_right(run(Machine())[0])


def test_the_report_has_times_ratios_limits_and_reasons() -> None:
    document, _ = run(Machine())
    text = render(document)
    heads = next(line for line in text.splitlines() if line.startswith("case"))
    line = next(line for line in text.splitlines() if line.startswith("dino_decoder"))
    assert heads.split()[-2:] == ["eager", "torchvision"]
    assert line.split()[-2:] == ["x2.50", "-"]
    assert " 10.0 " in line and "9.5-12.0" in line and "1.0e-04" in line
    assert "torchvision not available: torchvision has no such operator" in text
    assert "copy 4000 GB/s" in text and "float16 800" in text


def test_the_markdown_table_has_a_column_for_each_baseline_with_a_figure() -> None:
    text = bench_table(run(Machine())[0])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[0].split(" | ")[-1] == "PyTorch |"
    assert {row.count("|") for row in rows} == {8}
    assert rows[2].startswith("| dino_decoder | float16 | 10.0 | ") and rows[2].endswith("| 25.0 (×2.5) |")
    assert "Made up, driver 1.2, PyTorch 9.9, 2026-01-02" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("Nothing", "there is no operator 'Nothing' to time"),
        ("MatrixInverse --case poses", "there is no case 'poses' to time"),
        ("MatrixInverse --dtype float32,int8", "there is no dtype 'int8' to time"),
        ("MatrixInverse --against eager,luck", "there is no baseline 'luck' to time"),
        ("MatrixInverse --count 29", "29 runs are too few"),
        ("MatrixInverse --count many", "invalid int value"),
        ("MatrixInverse --compile-timeout 0", "'0' is not a positive number of seconds"),
        (
            "MatrixInverse --json /nowhere/at/all.json",
            "the report cannot be written: No such file or directory",
        ),
        ("", "the following arguments are required: OP"),
    ],
)
def test_wrong_arguments_have_a_message_in_four_parts(
    arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = trtsmith(capsys, "plugin", "bench", *arguments.split())
    refused(ran, 2, said)
    assert ran.out == ""


def test_without_torch_or_a_gpu_there_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_bench.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="PyTorch is not installed"):
        plugin_bench.require_gpu()
    monkeypatch.undo()
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"finds no GPU[\s\S]*fix:"):
        plugin_bench.require_gpu()


def test_the_recorded_command_is_what_was_asked() -> None:
    parser = argparse.ArgumentParser()
    actions = parser.add_subparsers()
    plugin_bench.add_parser(actions, argparse.ArgumentParser(add_help=False))
    words = "MatrixInverse --dtype float16 --against none --json x --commit y --ops 'my ops.py'"
    options = parser.parse_args(shlex.split(f"bench {words}"))
    plan = kernel_bench.select(options.names, options.case, options.dtype, (), options.count)
    expected = (
        "trtsmith plugin bench MatrixInverse --dtype float16 --against none --count 50 --ops 'my ops.py'"
    )
    assert plugin_bench.command_of(options, plan) == expected


def test_of_an_older_record_only_what_a_newer_one_lacks_is_shown() -> None:
    newer, _ = run(Machine())
    (row,) = newer["ops"]["MultiscaleDeformableAttention"]
    other = {**row, "case": "only_in_the_older"}
    older = {**newer, "date": "2020-02-02", "ops": {"MultiscaleDeformableAttention": [row, other]}}
    lines = bench_tables([newer, older]).splitlines()
    assert sum(line.startswith(f"| {row['case']} |") for line in lines) == 1
    assert sum(line.startswith("| only_in_the_older |") for line in lines) == 1
    assert sum("2020-02-02" in line for line in lines) == 1
