"""trtsmith bench on the command line: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.converter.cli.reports.test_engine_times import document
from trtsmith.converter.cli.commands import bench as command
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_OK, EXIT_USAGE


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.plan").write_bytes(b"an engine")
    return tmp_path


class Stage:
    """Takes the place of the stage; keeps the options that it got."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = {**found, "plugin_vs_native": None, "warnings": ["output 'y' is NaN throughout"]}

    def __call__(self, options: Any, progress: Any) -> dict[str, Any]:
        self.options = options
        return self.found


def agreeing() -> dict[str, Any]:
    return {**document(), "against": []}


def test_the_table_on_stdout_warnings_on_stderr_and_everything_as_json(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(command, "bench", Stage(agreeing()))
    ran = cli("bench m.plan --json times.json --layers 1")
    assert ran.code == EXIT_OK
    assert "GPU compute" in ran.out and "; 2 more are not shown" in ran.out
    assert ran.err == "warning: output 'y' is NaN throughout\n"
    written = json.loads((folder / "times.json").read_text())
    assert written["command"].startswith("trtsmith bench m.plan --warmup-ms 200 --duration-s 3 ")
    assert written["runs"] == document()["runs"]


def test_outputs_that_disagree_are_exit_code_3(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "bench", Stage(document()))
    assert cli("bench m.plan").code == EXIT_DISAGREE


@pytest.mark.parametrize(("plugin", "code"), [(True, EXIT_OK), (None, EXIT_OK), (False, EXIT_DISAGREE)])
def test_so_is_an_engine_with_plugins_that_disagrees(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, plugin: bool | None, code: int
) -> None:
    times = {"median": 1.0}
    side = {"compute_ms": times, "response_ms": times, "engine_bytes": 1, "device_memory": 1, "error": 0.5}
    sides = {
        "plugin": {**side, "agrees": plugin, "reason": "relative error"},
        "native": {"unavailable": "no reason"},
    }
    stage = Stage(agreeing())
    stage.found["plugin_vs_native"] = {**sides, "ratio": None, "nodes": None, "nodes_unavailable": None}
    monkeypatch.setattr(command, "bench", stage)
    ran = cli("bench m.plan")
    assert ran.code == code and "not available: no reason" in ran.out


def test_options_reach_the_stage(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(agreeing())
    monkeypatch.setattr(command, "bench", stage)
    words = [
        "--at",
        "min,max,min",
        "--warmup-ms",
        "250",
        "--duration-s",
        "0.5",
        "--iterations",
        "7",
        "--streams",
        "2",
        "--no-transfers",
    ]
    cli("bench m.plan", *words, "--cuda-graph", "on", "--shapes", "x=2x3", "--torch", "a:b")
    options = stage.options
    assert options.at == ("min", "max") and options.torch == "a:b" and options.shapes["x"].opt == (2, 3)
    timing = options.timing
    assert (timing.warmup_s, timing.duration_s, timing.iterations, timing.streams) == (0.25, 0.5, 7, 2)
    assert timing.graphs == (True,) and timing.transfers is False


def test_files_and_names_reach_the_stage_and_the_command_that_is_kept(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    stage = Stage(agreeing())
    monkeypatch.setattr(command, "bench", stage)
    measured = ["--freeze", "k=3", "--plugins", "a.so", "--plugins", "b.so", "--at", "min,max"]
    measured += ["--inputs", "in.npz", "--against", "onnxruntime,torch", "--torch", "m:f"]
    others = ["--flavour", "tensorrt", "--timeout", "7.5", "--layers", "-3", "-v", "--json", "times.json"]
    assert cli("bench m.plan", *measured, *others).code == EXIT_OK
    options = stage.options
    assert (options.freeze, options.plugins) == (("k=3",), (Path("a.so"), Path("b.so")))
    assert (options.inputs, options.against) == (Path("in.npz"), ("onnxruntime", "torch"))
    assert (options.flavour, options.timeout_s, options.layers, options.verbose) == ("tensorrt", 7.5, 0, True)
    kept = shlex.split(json.loads((folder / "times.json").read_text())["command"])
    pairs = list(pairwise(kept))
    assert all(pair in pairs for pair in zip(measured[::2], measured[1::2], strict=True))
    assert ("--flavour", "tensorrt") in pairs and not {"--json", "--timeout", "-v", "--layers"} & set(kept)


@pytest.mark.parametrize("other", ["in.npz", "a.so"])
def test_the_record_replaces_no_file_that_is_read(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setattr(command, "bench", Stage(agreeing()))
    words = ("--inputs", "in.npz", "--plugins", "a.so", "--json", other)
    refused(cli("bench m.plan", *words), EXIT_USAGE, f"would replace {other}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["absent.plan"], "no such file"),
        (["absent.onnx"], "absent.onnx"),
        (["m.plan", "--at", "middle"], "no point 'middle'"),
        (["m.plan", "--at", ","], "no point of a profile is named"),
        (["m.plan", "--shapes", "x=a"], "is not a shape"),
        (["m.plan", "--against", "tensorflow"], "nothing 'tensorflow'"),
        (["m.plan", "--plugin-vs-native"], "needs a model, and an engine is given"),
        (["m.plan", "--json", "m.plan"], "would replace"),
        (["m.plan", "--json", "m.manifest.json"], "would replace m.manifest.json"),
        (["m.plan", "--json", "no/folder/x.json"], "cannot be written"),
        (["m.plan", "--duration-s", "-1"], "not a positive number"),
        (["m.plan", "--iterations", "0"], "whole number"),
        (["m.plan", "--cuda-graph", "maybe"], "invalid choice"),
    ],
)
def test_refusals(cli: Cli, words: list[str], says: str) -> None:
    ran = cli("bench", *words)
    refused(ran, EXIT_USAGE)
    assert says.lower() in ran.err.lower()


def test_without_a_gpu_it_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtsmith.converter.engine.runtime.run_in_child.find_gpu", lambda: None)
    refused(cli("bench m.plan"), EXIT_USAGE, "GPU")


def test_help_says_what_the_figures_mean(cli: Cli) -> None:
    ran = cli("bench --help")
    assert ran.code == EXIT_OK
    for word in ("throughput", "latency", "enqueue", "H2D, D2H", "GPU compute", "response"):
        assert f"\n  {word} " in ran.out
