"""trtsmith batch, with real conversions of small models."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.converter.models import inverse, relu, written
from tests.processes import checkout_environment
from trtsmith.converter.batch.task import TaskRecord
from trtsmith.converter.cli.commands import batch
from trtsmith.converter.cli.main import main
from trtsmith.converter.engine.bundle.bundle import file_digest

ZOO = """
[matrix]
precision = ["default", "fp16"]

[[model]]
path = "models/fine.onnx"

[[model]]
path = "models/gate.onnx"
precision = "fp16"
"""


@pytest.fixture(autouse=True)
def home(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRTSMITH_CACHE", str(here / "cache"))
    return here


def gate(path: Path) -> Path:
    """A model that cannot be converted."""
    return written(path, "(float[1,3] x) => (float[1,3] y) { [g] y = acme.Gate (x) }")


@pytest.fixture
def zoo(home: Path) -> Path:
    (home / "models").mkdir()
    inverse(home / "models/fine.onnx")
    gate(home / "models/gate.onnx")
    (home / "zoo.toml").write_text(ZOO)
    return home / "zoo.toml"


def tasks_in(folder: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((folder / "results.json").read_text())
    return {task["name"]: task for task in document["tasks"]}


def test_a_folder_is_a_zoo_of_its_models(home: Path, cli: Cli) -> None:
    (home / "nets" / "more").mkdir(parents=True)
    relu(home / "nets/fixed.onnx")
    for number in range(5):
        relu(home / f"nets/more/open{number}.onnx", ("batch", "length"))
    ran = cli("batch nets --only fixed --only open0")
    assert ran.code == 0 and "2 tasks in" in ran.out
    assert set(tasks_in(home / "nets-results")) == {"fixed", "open0"}
    guessed = ran.err.partition("inputs are guessed for 5 of 6 models:\n")[2].split("\n")
    assert guessed[:3] == [f"    more/open{n}.onnx: x=1x1:1x128:4x512" for n in range(3)]
    assert guessed[3] == "    ... and 2 more" and ".scratch" not in ran.out + ran.err
    fix = ran.err.partition("fix:      trtsmith ")[2].partition(" writes them as shapes.INPUT")[0]
    assert cli(fix).code == 0 and 'shapes.x = "1x1:1x128:4x512"' in (home / "zoo.toml").read_text()
    os.chdir(home / "nets")
    assert cli("batch . -o ../again -q --no-cache --only fixed").code == 0
    assert json.loads((home / "again/results.json").read_text())["title"] == "nets"
    shutil.rmtree(home / "nets/more")
    os.rename(home / "nets/fixed.onnx", os.fsencode(home / "nets") + b"/\xff.onnx")
    refused(cli("batch ."), 2, "their names are not UTF-8")
    os.unlink(os.fsencode(home / "nets") + b"/\xff.onnx")
    refused(cli("batch ."), 2, "it has no model")


def test_a_model_that_cannot_be_read_is_a_task_that_fails(home: Path, cli: Cli) -> None:
    """In a folder and in a zoo, also where it is not selected."""
    (home / "nets").mkdir()
    relu(home / "nets/fine.onnx")
    (home / "nets/broken.onnx").write_bytes(b"no model")
    assert "unread:  1 that cannot be read" in cli("batch --init nets -o zoo.toml").out
    for given in ("nets", "zoo.toml"):
        ran = cli(f"batch {given} -o {given}-results")
        refused(ran, 1, "The file is text", "nets/broken.onnx")
        statuses = {name: task["status"] for name, task in tasks_in(home / f"{given}-results").items()}
        assert statuses == {"fine": "agree", "broken": "invalid"}
        assert (home / f"{given}-results/broken/record.json").exists()
        suites = ElementTree.parse(home / f"{given}-results/junit.xml").getroot()
        assert (suites.attrib["tests"], suites.attrib["errors"]) == ("2", "1")
        assert cli(f"batch {given} -o {given}-results --only fine").code == 0


def test_fixes_name_keys_of_the_zoo(home: Path, cli: Cli) -> None:
    (home / "nets").mkdir()
    axes = "(float[2, 3] x, int64[1] axes) => (float[A, B] y) { y = ReduceSum (x, axes) }"
    written(home / "nets/one.onnx", axes)
    cli("batch nets -o out")
    fix = tasks_in(home / "out")["one"]["problems"][0]["fix"]
    assert 'freeze = "axes=[0]"' in fix and "--freeze" not in fix


def test_results_that_no_task_of_the_zoo_has_are_told(home: Path, cli: Cli) -> None:
    """The folder of a model that left the zoo stays."""
    (home / "nets").mkdir()
    gate(home / "nets/one.onnx")
    gate(home / "nets/other.onnx")
    assert "left:" not in cli("batch nets -o out").out
    assert "left:" not in cli("batch nets -o out --only one").out
    os.unlink(home / "nets/other.onnx")
    assert cli("batch nets -o out").out.endswith(
        "left:    results of other, which the zoo no longer has: remove their folders\n"
    )
    assert (home / "out/other/record.json").exists()


@pytest.mark.usefixtures("zoo")
def test_a_zoo_is_converted_and_the_second_time_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "zoo.toml"]) == 1
    shown = capsys.readouterr()
    assert "3 tasks in" in shown.out and "2 agree, 1 refused (3 done now)" in shown.out
    assert f"results: {home / 'zoo-results/index.html'}" in shown.out
    assert "[3/3] " in shown.err and "error: no importer for operator acme::Gate" in shown.err
    assert "where:    gate: node 'g' (acme::Gate)" in shown.err
    out = home / "zoo-results"
    statuses = {name: task["status"] for name, task in tasks_in(out).items()}
    assert statuses == {"fine/default": "agree", "fine/fp16": "agree", "gate": "refused"}
    for name, task in tasks_in(out).items():
        record = TaskRecord.from_json((out / name / "record.json").read_text())
        assert record.key and record.status.value == task["status"]
        assert record.command[:2] == ("trtsmith", "convert")
        for file, facts in record.files.items():
            assert file_digest(out / name / file) == f"sha256:{facts.sha256}"
    assert main(["batch", "zoo.toml", "-q"]) == 1
    shown = capsys.readouterr()
    assert "(3 kept)" in shown.out and "gate: refused (kept)\nerror: no importer" in shown.err
    assert "fine" not in shown.err
    assert main(["batch", "diff", "zoo-results", "zoo-results"]) == 0
    assert "3 same" in capsys.readouterr().out
    assert main(["batch", "zoo.toml", "-o", "other", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["summary"]["sources"] == {"cache": 3}
    assert main(["batch", "zoo.toml", "-q", "--retry-failed", "--only", "gate"]) == 1
    assert "(1 done now)" in capsys.readouterr().out and len(tasks_in(out)) == 3


@pytest.mark.usefixtures("zoo")
def test_the_command_of_a_record_does_the_same_by_hand(home: Path) -> None:
    assert main(["batch", "zoo.toml", "-q", "--only", "fine*", "--no-cache"]) == 0
    assert not (home / "cache").exists()
    record = json.loads((home / "zoo-results/fine/fp16/record.json").read_text())
    assert main(record["command"][1:]) == 0
    assert (home / "model.plan").stat().st_size > 0
    manifest, own = (
        json.loads(path.read_text())
        for path in (home / "model.manifest.json", home / "zoo-results/fine/fp16/model.manifest.json")
    )
    assert manifest["files"].keys() == own["files"].keys()
    assert str(home / "zoo-results") not in json.dumps(own) and ".work" not in json.dumps(record)


@pytest.mark.usefixtures("zoo")
def test_a_list_does_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "zoo.toml", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[2].startswith("gate")
    assert "1 cpu  trtsmith convert " in lines[0] and not (home / "zoo-results").exists()
    assert main(["batch", "zoo.toml", "--list", "--json", "--only", "gate"]) == 0
    (task,) = json.loads(capsys.readouterr().out)
    assert task["name"] == "gate" and task["command"][-2:] == ["--precision", "fp16"]


def test_a_list_tells_what_is_timed_and_what_needs_a_gpu(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "installed_flavours", list)
    relu(home / "a.onnx")
    models = {
        "plain": "",
        "timed": "bench = true\ntarget = 'sm90'",
        "compared": "verify = 'engine'",
        "searched": "tune = true",
        "large": "bench = true\n[model.needs]\ngpu = 'H100'",
    }
    zoo = "\n".join(f"[[model]]\nname = {name!r}\npath = 'a.onnx'\n{more}" for name, more in models.items())
    (home / "zoo.toml").write_text(zoo)
    assert main(["batch", "zoo.toml", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split()[0]: line.split("trtsmith ")[0].split(maxsplit=1)[1].strip() for line in lines}
    assert shown == {
        "plain": "1 cpu",
        "timed": "1 cpu, a GPU of sm90, timed",
        "compared": "1 cpu, a GPU",
        "searched": "1 cpu, a GPU, tuned",
        "large": "1 cpu, GPU H100, timed",
    }
    assert main(["batch", "zoo.toml", "--list", "--json"]) == 0
    tasks = {task["name"]: task for task in json.loads(capsys.readouterr().out)}
    assert tasks["plain"]["gpu"] is None and tasks["large"]["gpu"]["name"] == "H100"
    assert tasks["timed"]["gpu"] == {"name": "any", "targets": ["sm90"], "why": "the engine is timed"}


def test_a_new_zoo_is_one_that_can_be_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "nets").mkdir()
    relu(home / "nets/<script>alert(1)<_script>.onnx")
    relu(home / "nets/two words.onnx", ("n", 3))
    assert main(["batch", "--init", "nets", "-o", "zoo.toml"]) == 0
    assert "2 models" in capsys.readouterr().out
    assert main(["batch", "--init", "nets", "-o", "zoo.toml"]) == 2
    assert main(["batch", "--init", "nets", "-o", "zoo.toml", "--force"]) == 0
    assert main(["batch", "zoo.toml", "-q"]) == 0
    assert "<script>alert" not in (home / "zoo-results/index.html").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "nothing given"),
        ("a.toml b.toml", "too many arguments: 2 given"),
        ("a.onnx b.onnx", "name the folder of the models, of which --only chooses some"),
        ("diff old", "trtsmith batch diff OLD NEW"),
        ("diff old new --jobs 2", "--jobs does not go with"),
        ("zoo.toml --fail-on worse", "--fail-on does not go with"),
        ("--init nets", "--init needs a file to write"),
        ("nets --init -o zoo.toml", "write the value behind the flag: --init FOLDER"),
        ("--init nets zoo.toml -o x", "too many arguments: 1 given"),
        ("zoo.toml --only nothing*", "no task has this name"),
        ("zoo.toml --jobs 2 --on 10.0.0.1:6379", "as many tasks as it has cores"),
        ("zoo.toml --jobs 0", "not a whole number"),
        ("none.toml", "cannot be read"),
        ("models/fine.onnx", "trtsmith convert models/fine.onnx; or name its folder: trtsmith batch models"),
        ("zoo.toml --ops pkg", 'write ops = "pkg" below [defaults] of the zoo'),
        ("zoo.toml --embed-plugins --precision=fp16", "write embed-plugins = true"),
        ("zoo.toml --no-such", "leave it out"),
        ("zoo.toml -o zoo.toml", "cannot be written"),
    ],
)
@pytest.mark.usefixtures("zoo")
def test_usage(words: str, says: str, cli: Cli) -> None:
    ran = cli(f"batch {words}")
    refused(ran, 2, says)
    assert ran.out == ""


@pytest.mark.usefixtures("zoo")
def test_a_cache_that_is_no_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "zoo.toml", "--cache", "zoo.toml"]) == 2
    shown = capsys.readouterr()
    assert "error: the cache is not a folder" in shown.err and "--cache zoo.toml" in shown.err
    assert not (home / "zoo-results").exists()


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'trtsmith[fleet]'")
@pytest.mark.usefixtures("zoo")
def test_a_ray_gives_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    here = ["batch", "zoo.toml", "-q", "--no-cache", "--jobs", "1"]
    assert main([*here, "-o", "here"]) == main([*here, "-o", "there", "--on", "local"]) == 1
    one, other = tasks_in(home / "here"), tasks_in(home / "there")
    assert one.keys() == other.keys()
    for name in one:
        same = ("status", "key", "command", "variant", "routes", "problems", "warnings")
        assert {part: one[name].get(part) for part in same} == {part: other[name].get(part) for part in same}
        assert sorted(os.listdir(home / "here" / name)) == sorted(os.listdir(home / "there" / name))
    assert main([*here, "-o", "there"]) == 1
    assert {task["source"] for task in tasks_in(home / "there").values()} == {"kept"}


WAITING = """
import time
from pathlib import Path
Path({begun!r}).touch()
while not Path({go_on!r}).exists():
    time.sleep(0.01)
from tests.outside.mixing import OPERATORS
"""


@pytest.mark.usefixtures("default_signals")
def test_an_interrupt_ends_it_in_order_and_a_second_call_does_the_rest(
    home: Path, capsys: pytest.CaptureFixture[str], start: Callable[..., subprocess.Popen[str]]
) -> None:
    """The first task is done, and the second has begun: the module of its operators waits for a file."""
    (home / "models").mkdir()
    for number in range(4):
        relu(home / f"models/m{number}.onnx", (number + 1, 3))
    begun, go_on = home / "begun", home / "go on"
    (home / "waiting.py").write_text(WAITING.format(begun=str(begun), go_on=str(go_on)))
    (home / "zoo.toml").write_text(
        '[[model]]\npath = "models/m0.onnx"\n'
        '[[model]]\npath = "models/m1.onnx"\nops = "waiting.py"\n'
        '[[model]]\npath = "models/m[23].onnx"\n'
    )
    driver = start(
        [sys.executable, "-m", "trtsmith", "batch", "zoo.toml", "--jobs", "1", "-v"],
        env=checkout_environment(TRTSMITH_CACHE=home / "cache", TRTSMITH_OPS_TIMEOUT=600),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not begun.exists():
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.01)
    driver.send_signal(signal.SIGINT)
    said, errors = driver.communicate()
    assert driver.returncode == 130, errors
    assert "m1: " in errors and "Traceback" not in errors and "cancelled" in said
    statuses = {name: task["status"] for name, task in tasks_in(home / "zoo-results").items()}
    assert statuses == {"m0": "agree", **dict.fromkeys(("m1", "m2", "m3"), "cancelled")}
    assert not list((home / "zoo-results").glob(".work*"))
    go_on.touch()
    assert main(["batch", "zoo.toml", "--jobs", "1"]) == 0
    assert "1 kept" in capsys.readouterr().out
