"""trtsmith bench on the command line: its output, its files, and its refusals."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.converter.cli.reports.test_engine_times import document
from trtsmith.converter.base.errors import EXIT_DISAGREE, EXIT_OK, EXIT_USAGE
from trtsmith.converter.cli.commands import bench as command


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    (here / "m.plan").write_bytes(b"an engine")
    return here


class Stage:
    """Takes the place of the stage; keeps the options that it got. found: what it gives back."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {
            **document(),
            "against": [],
            "plugin_vs_native": None,
            "warnings": ["output 'y' is NaN throughout"],
        }

    def __call__(self, options: Any, progress: Any) -> dict[str, Any]:
        self.options = options
        return self.found


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage()
    monkeypatch.setattr(command, "bench", stage)
    return stage


@pytest.mark.usefixtures("stage")
def test_the_table_on_stdout_warnings_on_stderr_and_everything_as_json(cli: Cli, folder: Path) -> None:
    ran = cli("bench m.plan --json times.json --layers 1")
    assert ran.code == EXIT_OK
    assert "GPU compute" in ran.out and "; 2 more are not shown" in ran.out
    assert ran.err == "warning: output 'y' is NaN throughout\n"
    written = json.loads((folder / "times.json").read_text())
    assert written["command"].startswith("trtsmith bench m.plan --warmup-ms 200 --duration-s 3 ")
    assert written["runs"] == document()["runs"]


def test_outputs_that_disagree_are_exit_code_3(cli: Cli, stage: Stage) -> None:
    stage.found |= {"against": document()["against"]}
    assert cli("bench m.plan").code == EXIT_DISAGREE


@pytest.mark.parametrize(("plugin", "code"), [(True, EXIT_OK), (None, EXIT_OK), (False, EXIT_DISAGREE)])
def test_so_is_an_engine_with_plugins_that_disagrees(
    cli: Cli, stage: Stage, plugin: bool | None, code: int
) -> None:
    times = {"median": 1.0}
    side = {"compute_ms": times, "response_ms": times, "engine_bytes": 1, "device_memory": 1, "error": 0.5}
    stage.found["plugin_vs_native"] = {
        "plugin": {**side, "agrees": plugin, "reason": "relative error"},
        "native": {"unavailable": "no reason"},
        **dict.fromkeys(("ratio", "nodes", "nodes_unavailable")),
    }
    ran = cli("bench m.plan")
    assert ran.code == code and "not available: no reason" in ran.out


def test_options_reach_the_stage(cli: Cli, stage: Stage) -> None:
    cli(
        "bench m.plan --at min,max,min --warmup-ms 250 --duration-s 0.5 --iterations 7 --streams 2 --no-transfers "
        "--cuda-graph on --shapes x=2x3 --torch a:b"
    )
    options, timing = stage.options, stage.options.timing
    assert options.at == ("min", "max") and options.torch == "a:b" and options.shapes["x"].opt == (2, 3)
    assert (timing.warmup_s, timing.duration_s, timing.iterations, timing.streams) == (0.25, 0.5, 7, 2)
    assert timing.graphs == (True,) and timing.transfers is False


def test_files_and_names_reach_the_stage_and_the_command_that_is_kept(
    cli: Cli, stage: Stage, folder: Path
) -> None:
    measured = "--freeze k=3 --plugins a.so --plugins b.so --at min,max --inputs in.npz "
    measured += "--against onnxruntime,torch --torch m:f"
    others = "--flavour tensorrt --timeout 7.5 --layers -3 -v --json times.json"
    assert cli(f"bench m.plan {measured} {others}").code == EXIT_OK
    options = stage.options
    assert (options.freeze, options.plugins) == (("k=3",), (Path("a.so"), Path("b.so")))
    assert (options.inputs, options.against) == (Path("in.npz"), ("onnxruntime", "torch"))
    assert (options.flavour, options.timeout_s, options.layers, options.verbose) == ("tensorrt", 7.5, 0, True)
    kept = shlex.split(json.loads((folder / "times.json").read_text())["command"])
    pairs, words = list(pairwise(kept)), measured.split()
    assert all(pair in pairs for pair in zip(words[::2], words[1::2], strict=True))
    assert ("--flavour", "tensorrt") in pairs and not {"--json", "--timeout", "-v", "--layers"} & set(kept)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("absent.plan", "no such file"),
        ("absent.onnx", "absent.onnx"),
        ("m.plan --at middle", "no point 'middle'"),
        ("m.plan --at ,", "no point of a profile is named"),
        ("m.plan --shapes x=a", "is not a shape"),
        ("m.plan --against tensorflow", "no baseline 'tensorflow'"),
        ("m.plan --plugin-vs-native", "needs a model, and an engine is given"),
        ("m.plan --json m.plan", "would replace"),
        ("m.plan --json m.manifest.json", "would replace m.manifest.json"),
        ("m.plan --json no/folder/x.json", "cannot be written"),
        ("m.plan --inputs in.npz --json in.npz", "would replace in.npz"),
        ("m.plan --plugins a.so --json a.so", "would replace a.so"),
        ("m.plan --duration-s -1", "not a positive number"),
        ("m.plan --iterations 0", "whole number"),
        ("m.plan --cuda-graph maybe", "invalid choice"),
    ],
)
def test_refusals(cli: Cli, words: str, says: str) -> None:
    ran = cli(f"bench {words}")
    refused(ran, EXIT_USAGE)
    assert says.lower() in ran.err.lower()


def test_without_a_gpu_it_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtsmith.converter.engine.runtime.run_in_child.find_gpu", lambda: None)
    refused(cli("bench m.plan"), EXIT_USAGE, "GPU")


def test_help_says_what_the_figures_mean(cli: Cli) -> None:
    ran = cli("bench --help-all")
    assert ran.code == EXIT_OK
    for word in ("throughput", "latency", "enqueue", "H2D, D2H", "GPU compute", "response"):
        assert f"\n  {word} " in ran.out
