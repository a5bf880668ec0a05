"""trtsmith verify searches for the node if outputs disagree or on request; the verdict is the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.cli.commands.conftest import run_by
from tests.converter.cli.commands.running import Cli, refused
from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import INFO, FakeTensorRT, node_of
from tests.converter.verify.fake_engine import FakeEngine
from trtsmith.converter.cli.commands import verify as verify_command
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.locate import prepare
from trtsmith.converter.locate.executors.executor import Onnxruntime
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.verify import baseline, candidates
from trtsmith.importers.opdef import Arrays

VERIFY = "verify m.onnx e.plan --report r.json"


def search_with(monkeypatch: pytest.MonkeyPatch, fake: FakeTensorRT) -> None:
    real = prepare.prepared
    monkeypatch.setattr(prepare, "build", fake.build)
    monkeypatch.setattr(verify_command, "prepared", lambda asked: real(asked, fake.run))


class Engines(FakeTensorRT):
    """The user's engine by a FakeEngine, those that the search builds by onnxruntime on a changed graph."""

    users: FakeEngine

    def run(self, request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
        if request.engine_path.name == "e.plan":
            return self.users.run(request, feeds)
        return super().run(request, feeds)


@pytest.fixture
def engines(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Engines:
    fake = Engines()
    fake.users = engine
    search_with(monkeypatch, fake)
    return fake


def twice_the_negative(graph: Any) -> None:
    node = node_of(graph, "neg")
    if node is not None:
        node.op_type = "Abs"


def wrong_at_the_largest(outputs: Arrays) -> dict[str, Any]:
    return {name: array * 3 if len(array) == 5 else array for name, array in outputs.items()}


def test_a_node_is_looked_for_where_outputs_disagree(engines: Engines, cli: Cli) -> None:
    engines.users.planted = wrong_at_the_largest
    engines.change = twice_the_negative
    ran = cli(f"{VERIFY} --located found")
    assert ran.code == 3 and "verdict: disagree" in ran.out and "node: neg (Neg)" in ran.out, ran
    assert "\nnext:" not in ran.out  # the search has found it
    report = json.loads(Path("r.json").read_text())
    assert report["located"]["nodes"][0]["name"] == "neg" and report["verdict"]["status"] == "disagree"
    assert report["located"]["nodes"][0]["inputs"][0]["shape"] == [5, 4, 4]  # of the inputs that were wrong
    assert Path("found", "node.onnx").is_file()


def test_an_engine_that_is_right_is_searched_when_asked(engines: Engines, cli: Cli) -> None:
    ran = cli(f"{VERIFY} --per-node")
    assert ran.code == 0 and "every value agrees" in ran.out
    assert json.loads(Path("r.json").read_text())["located"]["status"] == "agree"
    ran = cli(VERIFY)
    assert ran.code == 0 and "every value" not in ran.out
    assert json.loads(Path("r.json").read_text())["located"] is None


def test_it_is_left_out_when_not_wanted(engines: Engines, cli: Cli) -> None:
    engines.users.planted = wrong_at_the_largest
    ran = cli(f"{VERIFY} --no-per-node")
    assert ran.code == 3 and engines.requests == [] and "node" not in ran.err
    assert "\nnext: trtsmith locate m.onnx e.plan finds the faulty node\n" in ran.out


class Rounding(FakeTensorRT):
    """The user's engine, too, computes in float16: it is the graph that convert built it from."""

    def run(
        self, request: RunRequest, feeds: Sequence[Arrays], progress: object = None, *, repeats: int = 0
    ) -> RunResult:
        if request.engine_path.name != "e.plan":
            return super().run(request, feeds)
        graph = in_precision(rewrite(load_model(Path("m.onnx"))), PrecisionRequest("fp16")).model
        return RunResult(INFO, tuple(Onnxruntime().execute(graph, one) for one in feeds), 0.5)


def test_where_the_precision_makes_the_difference_it_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    network(here / "m.onnx")
    np.savez("in.npz", **x())
    flags = "--precision fp16 --shapes x=4x8 --inputs in.npz -q --no-verify"
    assert cli(f"convert m.onnx -o e.plan {flags}").code == 0
    fake = Rounding()
    run_by(FakeEngine(Path("m.onnx"), {"x": ((4, 8),) * 3}), monkeypatch)
    monkeypatch.setattr(candidates, "run_engine", fake.run)
    search_with(monkeypatch, fake)
    monkeypatch.setattr(baseline, "outputs_behind_branches", lambda *_: {})  # the network has an If
    given = f"{VERIFY} --inputs in.npz"
    assert cli(given).code == 0
    for flags in ("--rtol 1e-5 --atol 1e-6", "--precision fp32"):
        ran = cli(f"{given} {flags}")
        assert ran.code == 3 and "the precision itself makes the difference" in ran.out, ran
        assert "precision: float16" in ran.out and "--keep-fp32" in ran.out and "every value" not in ran.out
        report = json.loads(Path("r.json").read_text())
        found, verdict = report["located"]["outputs"], report["verdict"]["comparisons"]
        assert [c["relative"] for c in found] == [pytest.approx(c["relative"]) for c in verdict]


def test_an_engine_that_is_right_by_onnxruntime_is_not_what_differs(engines: Engines, cli: Cli) -> None:
    x = np.random.default_rng(4).standard_normal((2, 4, 4)).astype(np.float32)
    np.savez("in.npz", x=x)
    np.savez("other.npz", y=np.abs(np.linalg.inv(x)))
    ran = cli(f"{VERIFY} --inputs in.npz --expected other.npz")
    assert (
        ran.code == 3
        and "check other.npz, which gives something else" in ran.out
        and "every value agrees" in ran.out
    )


def test_a_function_of_the_users_is_what_differs(engines: Engines, cli: Cli) -> None:
    """The search compares with trtsmith's definition."""
    Path("doubled.py").write_text("import numpy as np\n\ndef inv(x):\n    return np.linalg.inv(x) * 2\n")
    ran = cli(f"{VERIFY} --reference Inverse=doubled:inv")
    assert (
        ran.code == 3
        and "check Inverse=doubled:inv, which gives" in ran.out
        and "every value agrees" in ran.out
    )


def test_the_verdict_stands_where_no_node_can_be_looked_for(engines: Engines, cli: Cli) -> None:
    engines.users.planted = wrong_at_the_largest
    Path("m.located").mkdir()
    Path("m.located", "mine.txt").write_text("")
    ran = cli(VERIFY)
    assert ran.code == 3 and "verdict: disagree" in ran.out and "the search failed" in ran.err
    refused(cli(f"{VERIFY} --per-node -q"), 2, "mine.txt")
