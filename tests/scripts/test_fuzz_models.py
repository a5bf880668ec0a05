"""scripts/fuzzing/fuzz_models.py detects every kind of failure, and 500 changed models cause none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import helper

from fuzzing.campaign import Campaign, FuzzOptions, run_campaign
from fuzzing.changed_model import changed_model
from fuzzing.fuzz_process import FuzzProcess, Limits
from fuzzing.judged_trial import MODEL, OUTPUT, run_trial
from fuzzing.smaller_model import smaller_model
from fuzzing.starting_models import EXAMPLES, StartingModel, starting_models

CHECK, REWRITE = ["check", MODEL], ["rewrite", MODEL, "-o", OUTPUT]
MODELS, PARTS = 500, 10


def named(name: str) -> bytes:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    nodes = [helper.make_node("Relu", ["x"], [f"y{index}"]) for index in range(8)]
    return helper.make_model(helper.make_graph(nodes, name, [value], [])).SerializeToString()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzProcess]:
    limits = Limits(cpu_s=2, wall_s=60, resident_mib=300)
    made = FuzzProcess(tmp_path_factory.mktemp("fuzz"), limits, "tests.scripts.fuzz_doubles:faulty")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [
        ("raise", "internal error", "KeyError"),
        ("die", "process crashes: SIGSEGV", "Fatal Python error: Segmentation fault"),
        ("hang", "hang", ""),
        ("leave", "left over", "half-written"),
        ("temporary", "left over", "tmp"),
        ("fill", "memory", "check uses"),
        ("code", "exit code", "9"),
    ],
)
def test_each_kind_of_failure_is_a_finding(process: FuzzProcess, name: str, kind: str, place: str) -> None:
    (finding,) = run_trial(process, named(name), [CHECK]).findings
    assert finding.kind == kind
    assert place in finding.place


def test_a_command_that_behaves_is_none(process: FuzzProcess) -> None:
    trial = run_trial(process, named("sound"), [CHECK, REWRITE])
    assert (trial.findings, trial.codes) == ((), (0, 0))


def test_a_model_is_made_smaller_while_it_shows_the_same(process: FuzzProcess) -> None:
    def shows(data: bytes) -> bool:
        return any(found.kind == "internal error" for found in run_trial(process, data, [CHECK]).findings)

    smaller = onnx.ModelProto.FromString(smaller_model(named("raise"), shows, 60))
    assert smaller.graph.name == "raise"
    assert not smaller.graph.node
    assert not smaller.graph.input


def test_findings_are_counted_and_kept_once(tmp_path: Path) -> None:
    options = FuzzOptions(
        models=6,
        guided=False,
        converts=0,
        keep=tmp_path / "kept",
        command="tests.scripts.fuzz_doubles:faulty",
    )
    campaign = run_campaign(options, [StartingModel("raise", named("raise"))])
    raised = [found for found in campaign.found.values() if found.finding.kind == "internal error"]
    assert raised
    assert len(list((tmp_path / "kept").glob("*.onnx"))) == len(campaign.found)


def test_a_seed_names_its_models() -> None:
    def drawn(seed: int) -> bytes:
        return changed_model(named("a"), [named("b")], random.Random(seed))

    assert [drawn(seed) for seed in range(50)] == [drawn(seed) for seed in range(50)]
    assert len({drawn(seed) for seed in range(50)}) > 30


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> list[StartingModel]:
    return starting_models(EXAMPLES, tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("part", range(PARTS))
def test_it_ends_in_a_message(examples: list[StartingModel], part: int, tmp_path: Path) -> None:
    count = MODELS // PARTS
    options = FuzzOptions(seed=18, first=part * count, models=count, guided=False, converts=0)
    campaign: Campaign = run_campaign(options, examples)
    assert campaign.models == count
    found = [f"{f.finding.kind}: {f.finding.place} (model {f.model})" for f in campaign.found.values()]
    assert not found
