"""Cache keys change with everything that a result depends on, and with nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from trtsmith.converter.batch import file_hashes
from trtsmith.converter.batch.file_hashes import FileHashes
from trtsmith.converter.batch.keys import Keys
from trtsmith.converter.batch.machine import MachineFacts, this_machine
from trtsmith.converter.batch.task import BatchTask, Needs
from trtsmith.converter.engine.builder.gpu import Gpu

L4 = Gpu("NVIDIA L4", (8, 9))
HERE = MachineFacts(
    versions=dict.fromkeys(
        ("trtsmith", "onnx", "onnxruntime", "numpy", "ml_dtypes", "torch", "modelopt"), "1"
    ),
    flavours={"tensorrt_rtx": "1.7.1"},
    rules="r",
    plugins="p",
    operators="o",
    packages="i",
)


@pytest.fixture
def task(tmp_path: Path) -> BatchTask:
    """A task with a file of every kind, in a zoo of its own."""
    zoo = tmp_path / "zoo"
    for name, data in {
        "net.onnx": b"model",
        "weights/a.bin": b"weights a",
        "weights/b.bin": b"weights b",
        "in.npz": b"inputs",
        "grid.npy": b"grid",
        "ops/acme/__init__.py": b"OPERATORS = ()",
        "ops/acme/lib/libacme_plugins.so": b"library",
        "libmine.so": b"mine",
    }.items():
        (zoo / name).parent.mkdir(parents=True, exist_ok=True)
        (zoo / name).write_bytes(data)
    return in_zoo(zoo)


def in_zoo(zoo: Path) -> BatchTask:
    return BatchTask(
        name="net/fp16",
        model="net",
        source=str(zoo / "net.onnx"),
        words=(
            *("--inputs", str(zoo / "in.npz"), f"--freeze=grid=@{zoo / 'grid.npy'}"),
            *("--ops", str(zoo / "ops/acme"), "--plugins", str(zoo / "libmine.so")),
            *("--keep-fp32", "/head/*", "--keep-fp32", "Conv", "--target", "sm86"),
        ),
        bench=("--at", "opt", "--inputs", str(zoo / "in.npz")),
        files=tuple(sorted(path for path in zoo.rglob("*") if path.is_file())),
    )


def key(task: BatchTask, machine: MachineFacts | None = HERE) -> str:
    return Keys(lambda _: machine, FileHashes()).of(task)


def test_a_key_is_a_digest_and_the_same_again(task: BatchTask) -> None:
    assert len(key(task)) == 64 and int(key(task), 16)
    assert key(task) == key(task)


def test_a_zoo_may_move_and_a_model_may_be_renamed(task: BatchTask, tmp_path: Path) -> None:
    before = key(task)
    shutil.move(tmp_path / "zoo", tmp_path / "an other place = @ with signs")
    moved = in_zoo(tmp_path / "an other place = @ with signs")
    assert moved.source != task.source and key(moved) == before
    old = Path(moved.source)
    new = old.with_name("other.onnx")
    old.rename(new)
    files = tuple(new if file == old else file for file in moved.files)
    assert key(replace(moved, source=str(new), files=files)) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda task: replace(task, name="other"),
        lambda task: replace(task, model="other", variant={"precision": "fp16"}),
        lambda task: replace(task, line=7),
        lambda task: replace(task, needs=Needs(cpus=4, memory_mib=100, gpu="L4", timeout_s=5)),
        lambda task: replace(task, files=task.files[::-1]),
        lambda task: replace(task, words=("--target", "sm86", *task.words[:-2])),
        lambda task: replace(task, words=("--target=sm86", *task.words[:-2])),
        lambda task: replace(task, words=(*task.words, "--verbose")),
        lambda task: replace(task, words=("-q", *task.words)),
    ],
)
def test_what_changes_nothing_that_is_made_is_in_no_key(
    task: BatchTask, change: Callable[[BatchTask], BatchTask]
) -> None:
    assert change(task) != task and key(change(task)) == key(task)


@pytest.mark.parametrize(
    "name",
    [
        "net.onnx",
        "weights/a.bin",
        "in.npz",
        "grid.npy",
        "ops/acme/__init__.py",
        "ops/acme/lib/libacme_plugins.so",
        "libmine.so",
    ],
)
def test_the_bytes_of_every_file_count(task: BatchTask, tmp_path: Path, name: str) -> None:
    before = key(task)
    path = tmp_path / "zoo" / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert key(task) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("weights/a.bin", "weights/c.bin"),  # the model names it
        ("libmine.so", "libyours.so"),  # it is put beside the engine
        ("ops/acme/lib/libacme_plugins.so", "ops/acme/libacme_plugins.so"),
        ("net.onnx", "net.pt2"),  # the ending says how it is read
    ],
)
def test_names_that_are_read_count(task: BatchTask, tmp_path: Path, old: str, new: str) -> None:
    before = key(task)
    zoo = tmp_path / "zoo"
    (zoo / old).rename(zoo / new)
    words = tuple(word.replace(str(zoo / old), str(zoo / new)) for word in task.words)
    files = tuple(zoo / new if file == zoo / old else file for file in task.files)
    source = task.source.replace(str(zoo / old), str(zoo / new))
    assert key(replace(task, source=source, words=words, files=files)) != before


def test_files_that_swap_their_bytes_are_others(task: BatchTask, tmp_path: Path) -> None:
    before, weights = key(task), tmp_path / "zoo" / "weights"
    (weights / "a.bin").rename(weights / "c")
    (weights / "b.bin").rename(weights / "a.bin")
    (weights / "c").rename(weights / "b.bin")
    assert key(task) != before


def beside(task: BatchTask, folder: Path) -> BatchTask:
    """With a module of --ops FILE.py whose package has further files, none of which a word names."""
    for name, data in {"ops.py": "import", "a/rule.py": "a", "b/rule.py": "b"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(data)
    files = tuple(sorted(path for path in folder.rglob("*") if path.is_file()))
    return replace(task, words=("--ops", str(folder / "ops.py")), files=(*task.files, *files))


def test_modules_beside_a_file_count_where_they_lie(task: BatchTask, tmp_path: Path) -> None:
    before = key(beside(task, tmp_path / "package"))
    assert key(beside(task, tmp_path / "moved")) == before
    swapped = beside(task, tmp_path / "swapped")
    for one, other in (("a", "c"), ("b", "a"), ("c", "b")):
        (tmp_path / "swapped" / one).rename(tmp_path / "swapped" / other)
    assert key(swapped) != before
    inner = beside(task, tmp_path / "inner")
    (tmp_path / "inner" / "ops.py").rename(tmp_path / "inner" / "a" / "ops.py")
    words = ("--ops", str(tmp_path / "inner" / "a" / "ops.py"))
    files = tuple(Path(words[1]) if file == tmp_path / "inner" / "ops.py" else file for file in inner.files)
    assert key(replace(inner, words=words, files=files)) not in ("", before)


@pytest.mark.parametrize(
    "change",
    [
        lambda task: replace(task, words=(*task.words[:-1], "sm89")),
        lambda task: replace(task, words=task.words[:-2]),
        lambda task: replace(task, words=(*task.words, "--no-mend")),
        lambda task: replace(
            task, words=(*task.words[:6], *task.words[8:10], *task.words[6:8], *task.words[10:])
        ),
        lambda task: replace(task, bench=None),
        lambda task: replace(task, bench=()),
        lambda task: replace(task, tune=()),
        lambda task: replace(task, tune=("--minutes", "1")),
        lambda task: replace(task, bench=("--at", "min", *task.bench[2:])),  # type: ignore[index]
        lambda task: replace(task, files=tuple(f for f in task.files if f.name != "a.bin")),
    ],
)
def test_every_word_counts(task: BatchTask, change: Callable[[BatchTask], BatchTask]) -> None:
    assert change(task) != task and key(change(task)) not in ("", key(task))


def test_the_last_of_an_option_and_its_opposite_counts(task: BatchTask) -> None:
    one, other = (
        replace(task, words=(*task.words, *order))
        for order in (("--mend", "--no-mend"), ("--no-mend", "--mend"))
    )
    assert key(one) != key(other)


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"versions": {**HERE.versions, name: "2"}}
            for name in ("trtsmith", "onnx", "onnxruntime", "numpy", "ml_dtypes")
        ),
        {"flavours": {"tensorrt_rtx": "1.8"}},
        {"rules": "other"},
        {"plugins": "other"},
        {"operators": "other"},
        {"packages": "other"},
        {"gpu": L4},
    ],
)
def test_every_fact_of_the_machine_counts(task: BatchTask, change: dict[str, object]) -> None:
    assert key(task, replace(HERE, **change)) not in ("", key(task))


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (("--target", "sm86"), ()),
        (("--reference", "Conv=m:f"), ("torch",)),
        (("--precision", "fp16"), ()),
        (("--precision", "fp8"), ("torch", "modelopt")),
        (("--precision=int8",), ("torch", "modelopt")),
    ],
)
def test_packages_count_for_those_who_use_them(
    task: BatchTask, words: tuple[str, ...], changed: tuple[str, ...]
) -> None:
    task = replace(task, words=words)
    tuned = replace(
        task, tune=("--samples", "more.npz")
    )  # with samples, int8 and fp8 are among the precisions
    for name in ("torch", "modelopt"):
        other = replace(HERE, versions={**HERE.versions, name: "2"})
        assert (key(task, other) != key(task)) == (name in changed), name
        assert key(tuned, other) != key(tuned)


def test_operators_of_installed_packages_count_unless_they_are_left_out(task: BatchTask) -> None:
    other = replace(HERE, packages="others")
    without = replace(task, words=("--no-plugins-from-packages",))
    assert key(without, other) == key(without)


def test_the_flavour_is_the_one_that_auto_would_be(task: BatchTask) -> None:
    both = replace(HERE, flavours={"tensorrt_rtx": "1.7.1", "tensorrt": "10.16"})
    newer = replace(both, flavours={"tensorrt_rtx": "1.7.1", "tensorrt": "11.0"})
    assert key(task, both) == key(task, newer)  # without a GPU it is TensorRT-RTX
    both, newer = replace(both, gpu=L4), replace(newer, gpu=L4)
    assert key(task, both) != key(task, newer)
    rtx = replace(task, words=(*task.words, "--flavour", "tensorrt_rtx"))
    assert key(rtx, both) == key(rtx, newer)
    assert key(replace(rtx, bench=("--flavour", "tensorrt")), both) != key(
        replace(rtx, bench=("--flavour", "tensorrt")), newer
    )


@pytest.mark.parametrize(
    ("words", "asked", "matters"),
    [
        ((), {}, True),  # auto: the engine is compared where the GPU is one of its targets
        (("--verify", "engine"), {}, True),
        (("--verify", "graph"), {}, False),
        (("--no-verify",), {}, False),
        (("--no-verify",), {"bench": ()}, True),
        (("--no-verify",), {"tune": ()}, True),
        (("--no-verify", "--flavour", "tensorrt"), {}, True),  # it builds for the GPU that is there
    ],
)
def test_which_gpu_it_is_counts_where_an_engine_meets_it(
    task: BatchTask, words: tuple[str, ...], asked: dict[str, tuple[str, ...]], matters: bool
) -> None:
    task = replace(task, words=("--target", "sm86", *words), **{"bench": None} | asked)
    machine = replace(HERE, flavours={"tensorrt": "10", "tensorrt_rtx": "1"}, gpu=L4)
    task = task if "--flavour" in words else replace(task, words=(*task.words, "--flavour", "tensorrt_rtx"))
    same_chip = replace(machine, gpu=Gpu("NVIDIA GeForce RTX 4090", (8, 9)))
    assert (key(task, machine) != key(task, same_chip)) == matters
    assert key(task, machine) != key(task, replace(machine, gpu=Gpu("NVIDIA L4", (9, 0))))  # rules ask for it


@pytest.mark.parametrize(
    "change",
    [
        {"flavours": {}},
        {"flavours": {"tensorrt_rtx": ""}},
        {"flavours": {"tensorrt": "10"}, "words": ("--flavour", "tensorrt_rtx")},
        {"operators": None},
        {"packages": None},
        {"hashed": False},
        {"source": "/nowhere/net.onnx"},
    ],
)
def test_what_is_not_known_has_no_key(task: BatchTask, change: dict[str, object]) -> None:
    of_task = {name: value for name, value in change.items() if hasattr(task, name)}
    of_machine = {name: value for name, value in change.items() if name not in of_task}
    assert key(replace(task, **of_task), replace(HERE, **of_machine)) == ""


def test_a_task_for_a_machine_that_nobody_knows_has_no_key(task: BatchTask) -> None:
    assert key(task, None) == ""


def test_a_task_has_the_key_of_the_machine_that_it_is_for(task: BatchTask) -> None:
    there = replace(HERE, gpu=L4)
    keys = Keys(lambda task: there if task.needs.gpu else HERE, FileHashes())
    assert keys.of(replace(task, needs=Needs(gpu="L4"))) == key(task, there) != keys.of(task)


@pytest.mark.parametrize("kind", ["missing", "fifo", "folder"])
def test_a_file_that_cannot_be_read_gives_no_key_and_nobody_waits(
    task: BatchTask, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "zoo" / "weights" / "a.bin"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    assert key(task) == ""


def test_a_link_to_a_model_is_the_model(task: BatchTask, tmp_path: Path) -> None:
    before, path = key(task), tmp_path / "zoo" / "net.onnx"
    path.rename(tmp_path / "blob")
    path.symlink_to(tmp_path / "blob")
    assert key(task) == before


def test_each_file_is_read_once_for_a_batch(task: BatchTask, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    real = file_hashes.hash_file
    monkeypatch.setattr(file_hashes, "hash_file", lambda path: (read.append(path), real(path))[1])
    keys = Keys(lambda _: HERE, FileHashes())
    variants = [replace(task, words=("--target", target)) for target in ("sm86", "sm89", "sm120")]
    keys.read(variants)
    assert len({keys.of(variant) for variant in variants}) == 3
    assert sorted(read) == sorted(task.files)


def test_a_model_that_is_written_to_after_it_was_hashed_is_noticed(task: BatchTask, tmp_path: Path) -> None:
    keys = Keys(lambda _: HERE, FileHashes())
    assert not keys.unchanged(task)  # nobody has hashed it
    keys.of(task)
    assert keys.unchanged(task)
    path = tmp_path / "zoo" / "net.onnx"
    path.write_bytes(b"anew!")
    os.utime(path, ns=(0, 0))
    assert not keys.unchanged(task)
    path.unlink()
    assert not keys.unchanged(task)


def test_this_machine_is_known_and_keys_need_nothing_else(
    task: BatchTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = this_machine()
    assert facts.versions["onnx"] and facts.versions["numpy"] and len(facts.rules) == 64
    found = facts.flavour("auto")
    assert bool(key(task, facts)) == (found is not None)
    monkeypatch.setenv("TRTSMITH_OPS", str(Path(task.source).parent / "ops" / "acme"))
    assert this_machine().operators != facts.operators
    monkeypatch.setenv("TRTSMITH_OPS", "no.such.module")
    assert this_machine().operators is None
