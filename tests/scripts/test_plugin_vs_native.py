"""scripts/plugin_vs_native.py: what is timed first, what becomes of workers that hang or die, and the record."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import plugin_vs_native as script
from pluginvsnative.boxes import run_items
from pluginvsnative.table import native_tables
from pluginvsnative.worker import Item

WORKER = """
import json, os, sys, time
fd, numbers = int(sys.argv[1]), [int(n) for n in sys.argv[2:]]
def send(**event): os.write(fd, json.dumps(event).encode() + b"\\n")
{before}
send(event="ready", tensorrt="TensorRT-RTX 9.9")
for n in numbers:
    send(event="begin", item=n)
    send(event="plugin", item=n, figures={{"median_us": 2.0, "error": 1e-7}})
    {middle}
    send(event="native", item=n, figures={{"median_us": 7.0, "error": 1e-6}})
"""


def spawner(before: str = "", middle: str = "") -> Callable[[Sequence[int], int], subprocess.Popen[bytes]]:
    def spawn(numbers: Sequence[int], descriptor: int) -> subprocess.Popen[bytes]:
        code = WORKER.format(before=before, middle=middle)
        return subprocess.Popen(
            [sys.executable, "-c", code, str(descriptor), *map(str, numbers)],
            pass_fds=(descriptor,),
            start_new_session=True,
        )

    return spawn


def run(spawn: Any, count: int, item_s: float = 20.0, seconds: float = 60.0) -> script.Record:
    items = [Item("MatrixInverse", f"case{n}", "float32") for n in range(count)]
    record = script.Record(items, {"gpu": "G"})
    run_items(range(count), spawn, item_s, time.monotonic() + seconds, record.add)
    return record


def test_every_item_is_measured_by_one_worker_and_the_ratio_is_natives_time_over_the_plugins() -> None:
    record = run(spawner(), 3)
    rows = record.to_json()["rows"]
    assert [(row["case"], row["ratio"]) for row in rows] == [("case0", 3.5), ("case1", 3.5), ("case2", 3.5)]
    assert record.to_json()["tensorrt"] == "TensorRT-RTX 9.9"


@pytest.mark.parametrize(
    ("middle", "reason"),
    [
        ("if n == 1: os._exit(3)", "the process ended with exit code 3"),
        ("if n == 1: os.kill(os.getpid(), 6)", "the process ended with signal 6"),
        ("if n == 1: time.sleep(60)", "took longer than 2 s"),
    ],
)
def test_a_worker_that_dies_or_hangs_costs_its_item_only(middle: str, reason: str) -> None:
    rows = run(spawner(middle=middle), 4, item_s=2.0).to_json()["rows"]
    assert [row.get("ratio") for row in rows] == [3.5, None, 3.5, 3.5]
    assert rows[1]["native"] == {"unavailable": reason}
    assert rows[1]["plugin"]["median_us"] == 2.0  # what it had told is kept


def test_workers_that_cannot_start_are_not_started_for_ever() -> None:
    rows = run(spawner(before="os._exit(7)"), 2).to_json()["rows"]
    reason = {"unavailable": "the process ended with exit code 7"}
    assert [(row["plugin"], row["native"]) for row in rows] == [(reason, reason)] * 2


def test_when_the_time_is_up_the_rest_says_so() -> None:
    rows = run(spawner(middle="time.sleep(60)"), 3, item_s=50.0, seconds=2.0).to_json()["rows"]
    assert [row["native"] for row in rows] == [{"unavailable": "no time was left"}] * 3


def test_the_first_case_of_each_operator_comes_first() -> None:
    items = script.select(
        ["MultiscaleDeformableAttention", "MatrixInverse", "ModulatedDeformableConvolution"],
        ["detr_encoder", "dino_decoder", "million_poses", "resnet_256x64x64"],
        ["float32"],
    )
    assert [item.case for item in items] == [
        "detr_encoder",
        "resnet_256x64x64",
        "million_poses",
        "dino_decoder",
    ]


def test_the_command_names_only_what_changes_the_measurement() -> None:
    assert script._command(script.parse([])) == "python3 scripts/plugin_vs_native.py --count 30"
    words = ["--op", "MatrixInverse", "--seconds", "9", "--output", "x.json", "--count", "40"]
    assert (
        script._command(script.parse(words))
        == "python3 scripts/plugin_vs_native.py --op MatrixInverse --count 40"
    )


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "find_gpu", lambda: None)
    monkeypatch.setattr(script, "choose_flavour", lambda *_: "tensorrt_rtx")
    assert script.main(["--op", "MatrixInverse"]) == 2
    assert "no GPU is found" in capsys.readouterr().err


def test_the_tables_show_figures_and_say_what_is_missing() -> None:
    figures = {"median_us": 12.34, "error": 1.23e-7}
    rows = [
        {
            "op": "MatrixInverse",
            "case": "small",
            "dtype": "float32",
            "plugin": {**figures, "workspace": 1 << 20},
            "native": {**figures, "median_us": 1234.5, "device_memory": 3 << 20, "layers": 9},
            "ratio": 100.0,
        },
        {
            "op": "MatrixInverse",
            "case": "huge",
            "dtype": "float16",
            "plugin": figures,
            "native": {"unavailable": "took longer than 40 s"},
        },
    ]
    head = {
        "gpu": "G",
        "driver": "1",
        "tensorrt": "TensorRT-RTX 9",
        "packages": {"torch": "2"},
        "date": "2026-01-02T",
        "command": "c",
    }
    lines = native_tables({**head, "rows": rows}).splitlines()
    assert "| small | float32 | 12.3 | 1,234 | ×100.0 | 1.2e-07 | 1.2e-07 | 1.0 | 3.0 | 9 |" in lines
    assert "| huge | float16 | 12.3 | - | - | 1.2e-07 | - | - | - | - |" in lines
    assert "Not measured, native: took longer than 40 s (huge float16)." in lines
    assert lines[-1].startswith("G, driver 1, TensorRT-RTX 9, PyTorch 2, 2026-01-02, `c`.")
