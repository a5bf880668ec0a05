"""`convert` compares the graphs everywhere, and the engine where a GPU can run it."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.cli.commands.running import Ran, refused, trtsmith
from tests.converter.models import attention, inverse, parsed, written
from tests.converter.verify.fake_engine import Arrays, FakeEngine
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.convert import destination
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import open_session, run
from trtsmith.converter.rewrite.rewrite import reference
from trtsmith.converter.verify import baseline, candidates, conversion_check, other_sizes, reduced
from trtsmith.converter.verify.candidate_judge import judge
from trtsmith.converter.verify.compare import compare
from trtsmith.converter.verify.constant_outputs import outputs_behind_branches
from trtsmith.converter.verify.inputs import generate_inputs
from trtsmith.converter.verify.sensitivity import with_original
from trtsmith.converter.verify.sets import Generation
from trtsmith.converter.verify.verdict import OtherSizes, Proof, verdict_of, with_other_sizes
from trtsmith.converter.verify.verdict_words import sentence
from trtsmith.importers.problem import Problem

AMPERE, HOPPER = Gpu("NVIDIA A10", (8, 6)), Gpu("NVIDIA H200", (9, 0))


class Place:
    """A working folder with m.onnx, a GPU of the test's choice, and an engine of the model that onnxruntime runs."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        patch.chdir(folder)
        self.patch, self.capsys, self.fake = patch, capsys, FakeEngine(inverse(folder / "m.onnx"))
        patch.setattr(candidates, "run_engine", self.fake.run)

    def has(self, gpu: Gpu | None) -> None:
        self.patch.setattr(conversion_check, "find_gpu", lambda: gpu)

    def run(self, *flags: str) -> Ran:
        return trtsmith(self.capsys, "convert", "m.onnx", "-o", "e.plan", "-q", *flags)

    def convert(self, *flags: str) -> tuple[int, str, dict[str, Any]]:
        ran = self.run("--target", "sm86", *flags)
        return ran.code, ran.out, json.loads(Path("e.manifest.json").read_text())["verdict"]

    def profiled(self, body: str, **tensors: Any) -> None:
        """m.onnx, whose y runs at some sizes only, or is what it is for all inputs."""
        written(self.fake.model, f"(float[N] x) => (float[M] y, float[N] z) {{ {body} }}", tensors)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, monkeypatch, capsys)


def verdict_line(out: str) -> str:
    return next(line for line in out.splitlines() if line.startswith("verdict:"))


def test_the_engine_is_run_where_its_gpu_is(place: Place) -> None:
    place.has(AMPERE)
    code, out, verdict = place.convert()
    assert code == 0 and verdict["engine_run"] is True and len(place.fake.asked) == 1
    assert "; the graphs agree: largest relative error" in out and "compute in TF32" in out
    (request,) = place.fake.requests
    assert [p.name for p in request.plugin_libraries] == ["libtrtsmith_plugins.so"]
    assert request.targets == ("sm86",)
    place.fake.planted = lambda outputs: {"y": outputs["y"] * 1.05}
    code, out, verdict = place.convert()
    assert code == 3 and verdict["status"] == "disagree" and "; the graphs agree" in out
    assert place.convert("--verify", "graph")[0] == 0


def test_onnxruntime_holds_no_graph_while_the_engine_runs(place: Place) -> None:
    """Else the weights would be in memory twice or three times: the original's, the rewritten graph's and the engine's."""
    sessions: list[weakref.ref[Any]] = []

    def watched(*arguments: Any, **options: Any) -> Any:
        session = open_session(*arguments, **options)
        sessions.append(weakref.ref(session))
        return session

    def starts(outputs: Arrays) -> Arrays:
        alive.append(sum(session() is not None for session in sessions))
        return outputs

    alive: list[int] = []
    place.has(AMPERE)
    place.fake.planted = starts
    for module in (baseline, reduced):
        place.patch.setattr(module, "open_session", watched)
    gc.disable()
    try:
        assert place.convert()[0] == 0
    finally:
        gc.enable()
    assert len(sessions) == 2 and alive == [0]


@pytest.mark.parametrize("references", [False, True])
def test_the_graphs_are_compared_while_the_engine_is_built(place: Place, references: bool) -> None:
    """And not beside a function of the user's, which nothing could stop."""
    place.has(None)
    compared, build = threading.Event(), destination.build_mended

    def judged(*arguments: Any, **options: Any) -> Any:
        compared.set()
        return judge(*arguments, **options)

    def waits(*arguments: Any) -> Any:
        seen.append(compared.wait(0 if references else 60))
        return build(*arguments)

    seen: list[bool] = []
    place.patch.setattr(conversion_check, "judge", judged)
    place.patch.setattr(destination, "build_mended", waits)
    Path("mine.py").write_text("import numpy as np\n\ndef inverse(x):\n    return np.linalg.inv(x)\n")
    flags = ("--reference", "Inverse=mine:inverse") if references else ()
    assert place.convert(*flags)[0] == 0 and seen == [not references] and compared.is_set()


def test_nothing_goes_on_where_the_build_is_interrupted(place: Place) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    place.patch.setattr(destination, "build_mended", interrupted)
    place.run("--target", "sm86")
    assert not Path("e.plan").exists()
    assert not any(thread.name == "beside" for thread in threading.enumerate())


def test_graphs_that_disagree_are_the_verdict(place: Place) -> None:
    place.has(AMPERE)
    np.savez("x.npz", x=np.eye(4, dtype=np.float32) + np.ones((2, 4, 4), np.float32) / 9)
    np.savez("y.npz", y=np.ones((2, 4, 4), np.float32))
    code, _, verdict = place.convert("--inputs", "x.npz", "--expected", "y.npz")
    assert code == 3 and verdict["engine_run"] is False and not place.fake.asked
    (sentence,) = verdict["references"]
    assert (
        "'y' by" in sentence and "in onnxruntime, too: probably inputs of another preprocessing" in sentence
    )


@pytest.mark.parametrize(
    ("values", "other"),
    [
        (np.arange(1, 9, dtype=np.float32), np.arange(2, 17, 2, dtype=np.float32)),
        (np.arange(1, 9), np.arange(8)),
        (np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)),
        (np.zeros(8, np.float32), np.ones(8, np.float32)),
    ],
    ids=["floats", "whole numbers", "another shape", "zeros"],
)
def test_an_original_that_is_as_expected_is_not_blamed(
    values: np.ndarray, other: np.ndarray, tmp_path: Path
) -> None:
    """One that is not is: no search for a node would find anything."""
    expected, found = {"y": values}, {"y": other}
    verdict = verdict_of(compare(expected, found), "", engine_run=False)
    model = parsed(tmp_path / "m.onnx", "(float[1] x) => (float[1] y) { y = Neg (x) }")
    right, wrong = (with_original(verdict, expected, plain, model) for plain in (expected, found))
    assert right.references == () and "locate" in right.advice
    assert len(wrong.references) == 1
    assert wrong.advice.startswith("check how the expected outputs were made")


@pytest.mark.parametrize("part", ["doubled", "first"])
def test_a_function_that_differs_from_the_definition_is_named(part: str, place: Place) -> None:
    place.has(None)
    text = "import numpy as np\n\ndef doubled(x):\n    return np.linalg.inv(x) * 2\n\ndef first(x):\n"
    Path("differing.py").write_text(f"{text}    return np.linalg.inv(x)[0]\n")
    code, out, _ = place.convert("--reference", f"Inverse=differing:{part}")
    assert code == 3 and "\nnext: check your function of Inverse: trtsmith's definition gives" in out
    assert "\nwith trtsmith's definition of Inverse, onnxruntime gives another 'y', too\n" in out


@pytest.mark.parametrize(
    ("gpu", "flags", "words"),
    [
        (None, (), "not run: there is no NVIDIA GPU here"),
        (HOPPER, (), "not run: it is for sm86, and the GPU here is NVIDIA H200, sm90"),
        (AMPERE, ("--verify", "graph"), "not run: --verify graph"),
        (HOPPER, ("--verify", "engine"), ""),
    ],
)
def test_the_engine_is_run_elsewhere_only_if_asked_for(
    gpu: Gpu | None, flags: tuple[str, ...], words: str, place: Place
) -> None:
    place.has(gpu)
    code, out, verdict = place.convert(*flags)
    assert code == 0 and words in out and verdict["engine_run"] is bool(place.fake.asked) is not bool(words)


def test_asked_for_without_a_gpu(place: Place) -> None:
    place.has(None)
    refused(place.run("--verify", "engine"), 2, "there is no NVIDIA GPU here", "--verify graph")
    assert not Path("e.plan").exists()
    refused(place.run("--verify", "engine", "--no-verify"), 2, "not allowed with argument")


def test_an_engine_that_cannot_be_run_is_kept_and_is_no_pass(place: Place) -> None:
    def broken(*arguments: object, repeats: int) -> None:
        raise UsageError(Problem("the GPU is out of memory", "e.plan", "20 GB", "close other programs"))

    place.has(AMPERE)
    place.patch.setattr(candidates, "run_engine", broken)
    code, out, verdict = place.convert()
    assert code == 4 and verdict["status"] == "not comparable" and Path("e.plan").is_file()
    assert "the engine could not be run: the GPU is out of memory" in out and "close other programs" in out


@pytest.mark.parametrize(
    ("apart", "code", "said"),
    [(0.3, 3, True), (2e-4, 0, True), (1e-6, 0, False)],
    ids=["beyond the tolerance", "within it", "as sums in another order"],
)
def test_an_engine_whose_outputs_differ_from_run_to_run(
    apart: float, code: int, said: bool, place: Place
) -> None:
    """As TensorRT-RTX 1.6.1's of ResNet-50 in float32 on an H200. The run is judged that is furthest off."""
    place.has(AMPERE)
    place.fake.unsteady = {"y": apart}
    place.fake.planted = lambda outputs: {"y": outputs["y"] * np.float32(1 + apart)}
    ran = place.convert()
    assert ran[0] == code
    assert ("the engine gives other numbers for 'y' each time it runs" in ran[1]) is said
    assert ("use another --precision, whose kernels are others" in ran[1]) is said


@pytest.mark.parametrize(
    ("outputs", "status", "accepted"),
    [
        ("float[3] y, float[3] z", "agrees in part", (0, "agree")),
        ("float[3] y", "not comparable", (4, "not comparable")),
    ],
)
def test_an_output_that_is_nan_everywhere_is_named(
    outputs: str, status: str, accepted: tuple[int, str], place: Place
) -> None:
    """Of two outputs the other one passes, and the verdict says that it is one of two; alone it is no pass."""
    body = "a = Abs (x) b = Add (a, one) c = Neg (b) y = Log (c) z = Neg (x)"
    written(place.fake.model, f"(float[3] x) => ({outputs}) <float one = {{1}}> {{ {body} }}")
    code, out, verdict = place.convert()
    assert (code, verdict["status"]) == (4, status)
    assert "output 'y' is not comparable: it is NaN or infinite everywhere" in out
    assert "--inputs FILE.npz" in out and verdict["left_out"][0]["output"] == "y"
    assert verdict["outputs"] == {"y": "not comparable", "z": "agree"} or "z" not in outputs
    code, out, verdict = place.convert("--not-compared", "y")
    assert (code, verdict["status"]) == accepted
    assert verdict["outputs"]["y"] == "not compared" and "; accepted" in out
    refused(place.run("--not-compared", "w"), 2, "the model has no output 'w'", "--not-compared w")


def test_steps_do_not_repeat_the_name_of_their_stage(place: Place) -> None:
    steps: list[str] = []
    place.patch.setattr(conversion_check, "steps_of", lambda progress: steps.append)
    place.convert()
    assert "running the rewritten graph in onnxruntime" in steps


@pytest.mark.parametrize(
    ("body", "shapes", "size", "works"),
    [
        ("y, i = TopK <axis = 0> (x, k)  z = Neg (x)", "x=2:8:9", "smallest size, x=2", "x=8:8:9"),
        ("a = Slice (x, start, k)  y = Add (x, row)  z = Neg (a)", "x=5:5:9", "largest size, x=9", "x=5"),
    ],
)
def test_a_size_at_which_the_original_fails_is_named(
    body: str, shapes: str, size: str, works: str, place: Place
) -> None:
    """A selection of more elements than there are, and a table of one size: TensorRT builds an engine all the same."""
    place.profiled(body, k=np.array([5]), start=np.array([0]), row=np.arange(5, dtype=np.float32))
    code, out, verdict = place.convert("--shapes", shapes)
    assert (code, verdict["status"]) == (4, "agrees in part") and verdict["outputs"]["y"] == "agree"
    line, compared = verdict_line(out), 2 if "8" in works else 1
    assert (
        f"{compared} of {compared + 1} sizes compared" in line
        and f"at the {size}, the original fails" in line
    )
    assert "at node " in line and f"\nnext: narrow the profile to what runs (--shapes {works}" in out
    assert "onnxruntime_src" not in line and {c["at"] for c in verdict["comparisons"]} >= {"opt"}


@pytest.mark.parametrize(
    ("a", "b", "told", "works"),
    [
        ("1x4:2x4:8x4", "1x4:2x4:16x4", "8 in input 'a' and 16 in input 'b', at the largest", "1x4:2x4:8x4"),
        ("2x4:4x4:8x4", "3x4:4x4:8x4", "2 in input 'a' and 3 in input 'b', at the smallest", "3x4:4x4:8x4"),
    ],
)
def test_ends_of_one_dimension_that_differ_between_inputs_are_named(
    a: str, b: str, told: str, works: str, place: Place
) -> None:
    """TensorRT takes the dimension to be equal: the sizes that both inputs have are compared once they are given."""
    written(place.fake.model, "(float[N,4] a, float[N,4] b) => (float[N,4] y) { y = Add (a, b) }")
    code, out, _ = place.convert("--shapes", f"a={a}", "--shapes", f"b={b}")
    fix = f"--shapes a={works} --shapes b={works}"
    assert code == 4 and f"\nnext: dimension 'N' is {told} size: give both one size ({fix})\n" in out
    assert place.convert(*fix.split(" "))[0] == 0


ENDS = ["opt", "opt", "min", "min", "max", "max"]


def test_ends_are_compared_and_a_huge_one_is_said_not_to_be(place: Place) -> None:
    place.profiled("y = Exp (x)  z = Neg (x)")
    code, out, verdict = place.convert("--shapes", "x=2:8:64")
    assert code == 0 and "; at the smallest and largest sizes 0.0e+00" in out
    assert [c["at"] for c in verdict["comparisons"]] == ENDS
    place.patch.setattr(other_sizes, "MOST_BYTES", 512)
    code, out, _ = place.convert("--shapes", "x=2:8:64")
    said = "; at the smallest sizes 0.0e+00; the largest size, x=64, was not compared: its values take"
    assert code == 0 and said in out
    code, out, verdict = place.convert("--shapes", "x=8")
    assert code == 0 and "sizes" not in out and [c["at"] for c in verdict["comparisons"]] == ["", ""]


def test_a_size_that_cannot_be_generated_ends_no_conversion(place: Place) -> None:
    """Inputs of the ends are made only where a branch may depend on them, and where they are compared."""
    made, ends = Generation.at, list[str]()

    def at(generation: Generation, end: str, *seed: int) -> Any:
        ends.append(end)
        if end == "max":
            raise UsageError(Problem("input 'x' is too large to be generated", "x", "less", "--shapes"))
        return made(generation, end, *seed)

    place.has(AMPERE)
    place.profiled("y = Exp (x)  z = Neg (x)")
    place.patch.setattr(Generation, "at", at)
    code, out, _ = place.convert("--shapes", "x=2:8:64")
    assert code == 0 and "the largest size, x=64, was not compared: input 'x' is too large" in out
    assert ends.count("max") == ends.count("min") == 1


def test_the_engine_is_run_at_the_ends_too(place: Place) -> None:
    """An engine that is wrong, or fails, at one end only: TensorRT takes other kernels there."""

    def fails(outputs: Arrays) -> Arrays:
        if outputs["y"].size == 2:
            raise UsageError(Problem("no kernel runs", "e.plan", "an engine that runs", "build it again"))
        return outputs

    place.has(AMPERE)
    place.profiled("y = Exp (x)  z = Neg (x)")
    code, out, verdict = place.convert("--shapes", "x=2:8:64")
    assert code == 0 and "; at the smallest and largest sizes 0.0e+00" in out
    assert [len(feeds["x"]) for feeds in place.fake.asked] == [8, 2, 64]
    assert [c["at"] for c in verdict["comparisons"]] == ENDS
    place.fake.planted = lambda outputs: {
        **outputs,
        "y": outputs["y"] * (1.5 if outputs["y"].size == 64 else 1),
    }
    code, out, verdict = place.convert("--shapes", "x=2:8:64")
    assert (code, verdict["status"]) == (3, "disagree") and "y at max: " in out
    place.fake.planted = fails
    code, out, verdict = place.convert("--shapes", "x=2:8:64")
    assert (code, verdict["status"]) == (4, "agrees in part") and "2 of 3 sizes compared" in out
    assert "at the smallest size, x=2, the engine fails: no kernel runs" in out
    assert "(--shapes x=8:8:64)" in out


def test_further_profiles_are_compared_too(place: Place) -> None:
    """At their usual sizes, where an engine may be wrong, or fail, in one profile alone."""

    def fails(outputs: Arrays) -> Arrays:
        if outputs["y"].size == 16:
            raise UsageError(Problem("no kernel runs", "e.plan", "an engine that runs", "build it again"))
        return outputs

    sizes = ("x=8", "x=2:16:32", "x=4:4:64")
    profiles = [word for n, one in enumerate(sizes) for word in ("--profile", str(n), "--shapes", one)]
    place.profiled("y = Exp (x)  z = Neg (x)")
    np.savez("x.npz", x=np.ones(8, np.float32))
    place.has(AMPERE)
    for inputs in ((), ("--inputs", "x.npz")):
        place.fake.asked.clear()
        place.fake.requests.clear()
        code, out, verdict = place.convert(*profiles, *inputs)
        assert code == 0 and verdict["engine_run"] and "; in profile 1 and profile 2 0.0e+00" in out
        assert [c["at"] for c in verdict["comparisons"][::2]] == ["opt", "profile 1", "profile 2"]
        assert [len(feeds["x"]) for feeds in place.fake.asked] == [8, 16, 4]
        assert [request.profile for request in place.fake.requests] == [0, 1, 2]
    np.savez("x.npz", x=np.linspace(-1, 1, 40, dtype=np.float32))  # which the last profile alone takes
    place.fake.requests.clear()
    assert place.convert(*profiles, "--inputs", "x.npz")[0] == 0
    assert [request.profile for request in place.fake.requests] == [2, 1, 2]
    wrong = {4: 1.5}
    place.fake.planted = lambda outputs: {**outputs, "y": outputs["y"] * wrong.get(outputs["y"].size, 1)}
    code, out, verdict = place.convert(*profiles)
    assert (code, verdict["status"]) == (3, "disagree") and "y at profile 2: " in out
    place.fake.planted = fails
    code, out, verdict = place.convert(*profiles)
    assert (code, verdict["status"]) == (4, "agrees in part") and "2 of 3 sizes compared" in out
    assert "at the usual size of profile 1, x=16, the engine fails: no kernel runs" in out
    assert "leave out profile 1" in out
    place.has(None)
    code, out, verdict = place.convert(*profiles)
    assert code == 0 and not verdict["engine_run"] and "; in profile 1 and profile 2 0.0e+00" in out


def test_a_fault_at_another_size_is_found() -> None:
    near, big, nowhere = (
        {"y": np.ones((2, 3)) + np.eye(2, 3)},
        {"y": np.arange(8.0)},
        {"y": np.full(8, np.nan)},
    )
    usual = verdict_of(compare(near, near), "i", engine_run=False)
    for actual, status in ((big["y"], "agree"), (-big["y"], "disagree"), (big["y"] * np.nan, "disagree")):
        found = with_other_sizes(usual, OtherSizes(comparisons=compare(big, {"y": actual}, at="max")))
        assert found.status == status and found.passed == (status == "agree")
        assert "at the largest sizes" in found.reason or "y at max: " in found.reason
    sizes = OtherSizes(comparisons=compare(nowhere, nowhere, at="max"))
    found = with_other_sizes(usual, sizes)
    assert found.status == "agrees in part" and "NaN or infinite everywhere" in found.reason
    assert with_other_sizes(usual, sizes, {"y"}).passed


def test_an_output_that_generated_inputs_do_not_change_proves_nothing(place: Place) -> None:
    """y depends on x for the graph, and is the same for all generated inputs; w depends on its size alone."""
    row = np.arange(5, dtype=np.float32)
    place.profiled("n = Mul (x, zero)  y = Add (n, row)  z = Neg (x)", zero=np.float32(0), row=row)
    code, out, verdict = place.convert("--shapes", "x=5")
    assert (code, verdict["status"]) == (0, "agree")
    assert "the engine's graph is the model's own" in out
    place.has(AMPERE)
    code, out, verdict = place.convert("--shapes", "x=5")
    assert (code, verdict["status"]) == (0, "agree")
    assert "'y' proves little: it is the same for 4 generated inputs" in out
    place.fake.planted = lambda outputs: {**outputs, "y": outputs["y"] * np.float32(1 + 1e-6)}
    code, out, verdict = place.convert("--shapes", "x=5")
    assert verdict["status"] == "agrees in part" and "1 of 2 outputs compared" in out
    assert "output 'y' is not comparable: it is the same for 4 generated inputs" in out
    assert place.convert("--shapes", "x=5", "--not-compared", "y")[0] == 0
    place.has(None)
    np.savez("x.npz", x=1 / (row + 1))
    ran: list[object] = []
    place.patch.setattr(baseline, "unchanging_outputs", lambda *told: ran.append(told))
    assert place.convert("--shapes", "x=5", "--inputs", "x.npz")[0] == 0 and not ran


def test_what_is_advised_changes_the_outcome(place: Place) -> None:
    """A model with one output: inputs are asked for, and numpy makes the file as the line says."""
    offset = np.full(3, 1000, np.float32)
    text = "(float[3] x, float[3] {}) => (float[3] y) {{ m = Sub (x, k) n = Add (m, {}) y = Log (n) }}"
    for name, given in (("w", "x=x, w=w"), ("w.1", "**{'x': 'ARRAY', 'w.1': 'ARRAY'}")):
        written(place.fake.model, text.format(f'"{name}"', f'"{name}"'), {"k": offset})
        code, out, verdict = place.convert()
        assert (code, verdict["status"]) == (4, "not comparable")
        (left,) = verdict["left_out"]
        assert out.count(left["why"]) == 1 and "--not-compared" not in out
        line = next(line for line in out.splitlines() if line.startswith("next: "))
        assert (
            line == f"next: {verdict['advice']}"
            and f"np.savez('FILE.npz', {given}) makes of x float32[3]" in line
        )
    written(place.fake.model, text.format("w", "w"), {"k": offset})
    made = "np.savez('FILE.npz', x=x, w=w)"
    exec(made, {"np": np, "x": offset * 2, "w": offset})  # the line that is advised
    code, out, verdict = place.convert("--inputs", "FILE.npz")
    assert (code, verdict["status"], verdict["advice"]) == (0, "agree", "")


def test_constant_inputs_are_a_warning(place: Place) -> None:
    text = (
        "(float[3] x, int64[3] mask) => (float[3] y) { m = Cast <to = 1> (mask) n = Mul (x, m) y = Exp (n) }"
    )
    written(place.fake.model, text, {})
    for x, warned in ((np.zeros(3), True), (np.full(3, 2.5), True), (np.arange(3), False)):
        np.savez("x.npz", x=x.astype(np.float32), mask=np.ones(3, np.int64))
        err = place.run("--inputs", "x.npz", "--force").err
        told = f"warning: the inputs are constant ('x' is {x[0]:.1f} everywhere, 'mask' is 1 everywhere)"
        assert (told in err) == warned and ("constant" in err) == warned
    assert "constant" not in place.run("--force").err
    np.savez("x.npz", x=np.float32([1, 2, np.nan]), mask=np.ones(3, np.int64))
    assert (
        "warning: input 'x' has 1 NaN value: an output that" in place.run("--inputs", "x.npz", "--force").err
    )


@pytest.mark.parametrize(
    ("output", "refused"), [("float[N,2]", True), ("float[M,2]", False), ("float", False)]
)
def test_expected_outputs_of_another_batch_are_refused_before_the_build(
    output: str, refused: bool, place: Place
) -> None:
    written(place.fake.model, f"(float[N,2] x) => ({output} y) {{ y = Neg (x) }}", {})
    np.savez("x.npz", x=np.float32([[1, 2], [3, 4]]))
    np.savez("y.npz", y=np.float32([[-1, -2]]))
    ran = place.run("--inputs", "x.npz", "--expected", "y.npz", "--shapes", "x=1x2:2x2:4x2")
    assert ("expected output 'y' is of N 1, and the input 'x' of 2" in ran.err) == refused
    assert Path("e.plan").exists() != refused


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({}, ""),
        ({"mask": 1}, "warning: 'mask' of --inputs x.npz is not used: the model's inputs are 'x'\n"),
        ({"m": 1, "k": 2}, "warning: 'm', 'k' of --inputs x.npz are not used: the model's inputs are 'x'\n"),
    ],
)
def test_arrays_that_are_no_inputs_are_a_warning(others: dict[str, int], told: str, place: Place) -> None:
    np.savez("x.npz", x=np.random.default_rng(0).random((2, 4, 4)).astype(np.float32), **others)
    ran = place.run("--inputs", "x.npz")
    assert ran.code == 0 and told in ran.err and ("not used" in ran.err) == bool(told)


BRANCHES = """(float[3] x, bool flag) => (float[3] y, float[3] z, float[3] w) <float limit = {5}> {
    most = ReduceMax <keepdims = 0> (x)  high = Greater (most, limit)
    a = If (high) <then_branch = t () => (float[3] p) { p = Exp (x) }, else_branch = e () => (float[3] q) { q = Neg (x) }>
    w = If (flag) <then_branch = t2 () => (float[3] r) { r = Sin (x) }, else_branch = e2 () => (float[3] s) { s = Cos (x) }>
    y = Abs (a)  z = Neg (x) }"""


def test_outputs_behind_a_branch_that_was_not_taken(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", BRANCHES)
    low = {"x": np.zeros(3, np.float32), "flag": np.array(True)}
    high = low | {"x": np.full(3, 9, np.float32)}
    found = outputs_behind_branches(model, {"flag"}, [low])
    assert list(found) == ["y"] and "comes from the then_branch of If node 'a'" in sentence(found["y"])
    assert outputs_behind_branches(model, {"flag"}, [low, high]) == {}
    assert list(outputs_behind_branches(model, (), [low, high])) == ["w"]
    outputs = {name: np.arange(3.0) for name in ("y", "z", "w")}
    verdict = verdict_of(compare(outputs, outputs), "i", engine_run=False, proof=Proof(found))
    assert verdict.status == "agrees in part" and verdict.outputs["y"] == "not comparable"


def test_the_line_says_that_both_sides_rest_on_one_definition(place: Place) -> None:
    """onnxruntime has no attention of mmcv's; of outputs that the user gives, the line does not say so."""
    model = load_model(attention(place.fake.model))
    _, out, verdict = place.convert()
    line, name = verdict_line(out), model.proto.graph.node[0].op_type
    assert f"::{name}: both sides use trtsmith's definition of it" in line
    assert f"\nnext: compare with your framework: --reference {name}=MODULE:FUNCTION, or --inputs" in out
    assert "trtsmith's definition" in str(verdict["reason"]) and "--expected FILE.npz" in str(
        verdict["advice"]
    )
    assert verdict["basis"] == ["graph only", "own definition"] and verdict["status"] == "agree"
    assert line.startswith("verdict: agree (graph only; own definition): ")
    made = generate_inputs(model, graph_inputs(model.proto), {}).arrays
    np.savez("x.npz", **made)  # type: ignore[arg-type]
    np.savez("y.npz", **run(reference(model), made))  # type: ignore[arg-type]
    _, out, verdict = place.convert("--inputs", "x.npz", "--expected", "y.npz")
    assert "trtsmith's definition" not in out and verdict["basis"] == ["graph only"]
    place.has(AMPERE)
    _, out, verdict = place.convert()
    assert verdict["engine_run"] and verdict["basis"] == ["own definition"]
    _, out, verdict = place.convert("--inputs", "x.npz", "--expected", "y.npz")
    assert (
        verdict["engine_run"] and verdict["basis"] == [] and verdict_line(out).startswith("verdict: agree: ")
    )
