"""Advice for flags of trtexec and Polygraphy names only flags that exist."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, refused, shell
from trtsmith.converter.cli.main import build_parser
from trtsmith.converter.cli.parsing.other_flags import FLAGS, POLYGRAPHY

COMMANDS = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_every_flag_of_ours_that_is_named_exists(name: str) -> None:
    other = FLAGS[name]
    assert other.ways or other.note
    for way in other.ways:
        for command in way.commands:
            parser = COMMANDS[command]
            first = way.words.split()[0]
            if first.startswith("-"):
                assert first in parser._option_string_actions, command
                takes_value = parser._option_string_actions[first].nargs != 0
                assert takes_value is (len(way.words.split()) == 2), (command, way)
            else:
                count = sum(1 for action in parser._actions if not action.option_strings)
                assert 1 <= len(way.words.split()) <= count, command


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"plugin", "op"}))
def test_every_flag_is_explained_where_it_is_not_ours(command: str, cli: Cli) -> None:
    others = sorted(FLAGS.keys() - COMMANDS[command]._option_string_actions.keys())
    ran = cli(command, *(f"{name}=7" for name in others))
    told = [f"unknown flag {name}; it is a flag of {FLAGS[name].tool}" for name in others]
    refused(ran, 2, *told)
    assert "VALUE" not in ran.err


def test_polygraphys_flags_are_polygraphys() -> None:
    pytest.importorskip("polygraphy")
    program = "import sys; from polygraphy.tools import main; sys.argv[0] = 'polygraphy'; main()"
    said = "".join(shell(f'{sys.executable} -c "{program}" {tool} --help').out for tool in ("run", "convert"))
    words = {word.strip(",.[]()'") for word in said.split()}
    assert {name for name, other in FLAGS.items() if POLYGRAPHY in other.tool} - words == set()


@pytest.mark.parametrize(
    ("words", "told"),
    [
                ("convert --onnx=m.onnx", ("write m.onnx in place of --onnx=m.onnx",)),
        ("convert m.onnx --saveEngine=a.plan --fp16", ("-o a.plan", "--precision fp16")),
        ("convert m.onnx --saveEngine", ("write -o ENGINE in place of --saveEngine",)),
        ("convert m.onnx --save-engine a.plan", ("write -o a.plan in place of --save-engine a.plan",)),
        ("convert --fp16 m.onnx", ("write --precision fp16 in place of --fp16\n",)),
        ("convert --fp16 --int8 m.onnx", ("write --precision int8+fp16 in place of both\n",)),
        ("convert --precision fp16 --int8 m.onnx", ("write --precision int8+fp16 in place of both\n",)),
        ("convert --precision=int8 --fp16 m.onnx", ("write --precision int8+fp16 in place of both\n",)),
        ("convert --precision fp16 --fp16 m.onnx", ("write --precision fp16 in place of --fp16\n",)),
        ("verify --fp16 --int8 m.onnx e.plan", ("leave both out, and give --precision int8+fp16 to trtsmith convert\n",)),
        ("check m.onnx --memPoolSize=workspace:1", ("trtsmith convert ... --memPoolSize workspace:1",)),
        ("check m.onnx --pool-limit=workspace:2G", ("convert ... --memory-pool-limit workspace:2G",)),
        ("check m.onnx --versionCompatible", ("trtsmith convert ... --version-compatible",)),
        ("convert m.onnx --allowGPUFallback", ("leave --allowGPUFallback out",)),
        ("convert m.onnx --loadEngine=m.plan", ("trtsmith run ... m.plan",)),
        ("verify --loadEngine=m.plan", ("MODEL m.plan",)),
        ("convert m.onnx --batch 4", ("write --shapes NAME=4x3x640x640 in place of --batch 4\n",)),
        ("convert m.onnx --imgsz 320", ("write --shapes NAME=1x3x320x320 in place of --imgsz 320\n",)),
        ("convert m.onnx --imgsz=64 --batch=8", ("write --shapes NAME=8x3x64x64 in place of both\n",)),
        ("convert m.onnx --batch-size 8 --img-size 64", ("write --shapes NAME=8x3x64x64 in place of both\n",)),
        ("convert m.onnx imgsz=64 batch=8", ("fix:      write --shapes NAME=8x3x64x64 in place of both\n",)),
        ("run e.plan --imgsz=64 --batch=8", ("leave both out, and give --shapes NAME=8x3x64x64 to trtsmith convert\n",)),
        ("convert m.onnx --batch 4 --imgsz a", ("write --shapes NAME=4x3x640x640 in place of --batch 4\n",)),
        ("convert m.onnx --device 0", ("unknown flag --device; it is a flag of trtexec and exporters to ONNX\n",)),
        ("convert m.onnx imgsz=320 half=True -q", ("write --shapes NAME=1x3x320x320 in place of imgsz=320",
                                                   "write --precision fp16 in place of half=True\n")),
        ("convert m.onnx -q precision=fp16", ("write --precision=fp16\n",)),
        ("convert m.onnx --nms --simplify", ("leave --nms out\n", "leave --simplify out\n")),
        ("convert m.onnx --conf 0.3 max_det=9", ("leave --conf out\n", "constant of the model")),
        ("convert m.onnx max_det=100", ("leave max_det=100 out: the exporter takes it",)),
        ("bench m.plan --useSpinWait --threads --avgRuns=9", ("CUDA events", "--streams N", "percentiles")),
        ("convert m.onnx --dumpLayerInfo", ("leave --dumpLayerInfo out, and give --layers 10 to trtsmith bench\n",)),
        ("convert m.onnx --data coco.yaml", ("write --calibration NPZ in place of --data\n",)),
        ("convert m.onnx n.onnx", ("`trtsmith batch FOLDER` converts all models of a folder\n",)),
        ("convert m.onnx --dtype fp16", ("write --precision fp16 in place of --dtype fp16\n",)),
        ("check m.onnx --half --dynamic", ("write --precision fp16 in place", "leave --dynamic out")),
        ("check m.onnx --stronglyTyped", ("convert ... --strongly-typed",)),
        ("run m.plan --warmUp=5 --iterations=3", ("bench ... --warmup-ms 5", "bench ... --iterations 3")),
    ],
)  # fmt: skip
def test_what_was_given_is_in_the_answer(words: str, told: tuple[str, ...], cli: Cli) -> None:
    refused(cli(words), 2, *told)


def test_the_guide_for_those_who_come_from_trtexec_names_the_same() -> None:
    page = (Path(__file__).parents[4] / "docs" / "guides" / "migrating.md").read_text()
    table = page.split("## trtexec")[1].split("\n\n")[1]
    theirs = {flag for row in table.splitlines()[2:] for flag in re.findall(r"--\w+", row.split("|")[1])}
    ours = COMMANDS["convert"]._option_string_actions
    assert len(theirs) > 25 and {flag for flag in theirs if flag not in FLAGS and flag not in ours} == set()
