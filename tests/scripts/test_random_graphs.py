"""Random graphs of scripts/gpucheck: their drawing, and the judgement of outputs; onnxruntime is the engine."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from gpucheck.drawn import random_graphs
from gpucheck.drawn.graph_draw import Draw, NothingFitsError, draw
from gpucheck.drawn.graph_kinds import KINDS
from gpucheck.drawn.random_graphs import judge
from gpucheck.engines import DOES_NOT_RUN, NOT_BUILT, Opener
from gpucheck.record import Notes, read_notes
from tests.scripts.engine_doubles import by_onnxruntime, in_workers, refuses


def test_a_seed_gives_the_same_graph_each_time() -> None:
    texts = []
    for _ in range(2):
        made = draw(12, KINDS).graph()
        assert made is not None
        texts.append(made[0].SerializeToString(deterministic=True))
    assert texts[0] == texts[1]


def test_rewritten_graphs_agree_and_every_kind_is_drawn(tmp_path: Path) -> None:
    drawn_kinds: set[str] = set()
    verdicts: Counter[str] = Counter()
    for seed in range(400):
        drawn = draw(seed, KINDS)
        drawn_kinds.update(node.op_type for node in drawn.nodes)
        made = drawn.graph()
        if made is not None:
            onnx.checker.check_model(made[0], full_check=True)
        found = judge(draw(seed, KINDS), tmp_path / "g.onnx", by_onnxruntime())
        assert found["verdict"] in random_graphs.HARMLESS, (seed, found)
        verdicts[found["verdict"]] += 1
    assert verdicts[random_graphs.AGREES] > 10 * verdicts[random_graphs.NOT_COMPARABLE]
    assert len(drawn_kinds) > 75
    for kind in KINDS:
        assert any(_comes_to_something(kind, seed) for seed in range(300)), kind.__name__


def _comes_to_something(kind: Callable[[Draw], None], seed: int) -> bool:
    drawn = draw(seed, KINDS)
    before = len(drawn.nodes)
    with drawn.attempt():
        kind(drawn)
    return len(drawn.nodes) > before


def test_what_does_not_fit_leaves_nothing_behind() -> None:
    drawn = draw(3, KINDS)
    before = (dict(drawn.values), dict(drawn.inputs), len(drawn.initializers), len(drawn.nodes))
    with drawn.attempt():
        drawn.constant(np.ones(3))
        drawn.input(np.ones(3, np.float32))
        raise NothingFitsError
    assert before == (dict(drawn.values), dict(drawn.inputs), len(drawn.initializers), len(drawn.nodes))


def test_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "g.onnx"

    def judged(opener: Opener) -> dict[str, Any]:
        return judge(draw(6, KINDS), path, opener)

    def first(change: Callable[[np.ndarray], Any]) -> Opener:
        return by_onnxruntime(
            lambda outputs: {**outputs, next(iter(outputs)): change(next(iter(outputs.values())))}
        )

    assert judged(by_onnxruntime())["verdict"] == "agrees"
    wrong = judged(first(lambda value: value + np.ones((), value.dtype)))
    assert wrong["verdict"] == "wrong" and wrong["reason"] and wrong["graph"].startswith("<")
    assert judged(first(lambda value: value[None]))["verdict"] == "wrong"
    assert judged(first(lambda value: value.astype(np.float64)))["verdict"] == "wrong"
    assert judged(first(lambda value: value * np.array(np.nan, value.dtype)))["verdict"] == "wrong"
    assert judged(by_onnxruntime(lambda outputs: {}))["verdict"] == "wrong"
    assert not list(tmp_path.iterdir())

    assert judged(refuses(NOT_BUILT)) == {"verdict": NOT_BUILT, "reason": "because", "retire": False}
    assert judged(refuses(DOES_NOT_RUN)) == {"verdict": DOES_NOT_RUN, "reason": "because", "retire": True}


def test_the_step_fails_for_wrong_numbers_and_counts_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorrt_rtx")
    monkeypatch.setattr(random_graphs, "GRAPHS", 12)
    monkeypatch.setattr(random_graphs.os, "cpu_count", lambda: 1)
    in_workers(random_graphs, "exact", monkeypatch)
    random_graphs.check(tmp_path, 60, Notes(tmp_path / "right.jsonl"))
    right = read_notes(tmp_path / "right.jsonl", "graphs", None)
    assert (right.verdict, right.rows) == ("pass", [{"verdict": "agrees", "graphs": 12, "reason": ""}])
    assert right.summary.startswith("12 of 12 graphs agree")

    in_workers(random_graphs, "empty", monkeypatch)
    random_graphs.check(tmp_path, 60, Notes(tmp_path / "wrong.jsonl"))
    wrong = read_notes(tmp_path / "wrong.jsonl", "graphs", None)
    assert wrong.verdict == "fail" and len(wrong.failures) == 12
    assert [row["verdict"] for row in wrong.rows] == ["wrong"] * 13
    assert wrong.rows[-1]["graphs"] == 12 and wrong.rows[-1]["reason"].startswith("seed ")
    assert wrong.failures[0].startswith("seed ") and "missing" in wrong.failures[0]
