"""The models that a zoo's entry names: files, globs, functions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.converter.batch.zoo.zoos import problems_of, tasks_of, write_model


def found(folder: Path, path: str) -> list[str]:
    """The sources relative to the folder, of files without dynamic inputs."""
    tasks = tasks_of(folder, f"[[model]]\npath = {path}\n")
    return [os.path.relpath(task.source, folder) if os.sep in task.source else task.source for task in tasks]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ('"a.onnx"', ["a.onnx"]),
        ('"nets/../a.onnx"', ["a.onnx"]),
        ('"./nets//c.onnx"', ["nets/c.onnx"]),
        ('"nets/*.onnx"', ["nets/c.onnx"]),
        ('"nets/**/*.onnx"', ["nets/c.onnx", "nets/deep/d.onnx"]),
        ('"**/[cd].onnx"', ["nets/c.onnx", "nets/deep/d.onnx"]),
        ('"nets/**"', ["nets/c.onnx", "nets/deep/d.onnx"]),
        ('["a.onnx", "nets/c.onnx"]', ["a.onnx", "nets/c.onnx"]),
        ('["**/*.onnx", "!b.onnx", "!nets/*.onnx"]', ["a.onnx", "nets/deep/d.onnx"]),
        ('["a.onnx", "a.onnx"]', ["a.onnx"]),
        ('"pkg.nets:Detector.make"', ["pkg.nets:Detector.make"]),
        ('"{folder}/nets/*.onnx"', ["nets/c.onnx"]),
    ],
)
def test_paths(folder: Path, path: str, expected: list[str]) -> None:
    assert found(folder, path.replace("{folder}", str(folder))) == expected


def test_a_glob_takes_models_only_and_nothing_hidden(folder: Path) -> None:
    write_model(folder / ".git" / "h.onnx", 1)
    write_model(folder / "nets" / ".h.onnx", 1)
    write_model(folder / "nets" / "e.onnx", 1, weights="e.onnx.data")
    (folder / "nets" / "folder.onnx").mkdir()
    (folder / "nets" / "gone.onnx").symlink_to("nowhere")
    names = ["a.onnx", "nets/c.onnx", "nets/deep/d.onnx", "nets/e.onnx"]
    assert found(folder, '["**/*", "!b.onnx"]') == names


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder: Path) -> None:
    write_model(folder / "net[1].onnx", 1)
    write_model(folder / "net1.onnx", 1)
    assert found(folder, '"net[1].onnx"') == ["net[1].onnx"]


def test_a_file_whose_name_looks_like_a_function_is_that_file(folder: Path) -> None:
    write_model(folder / "m:f.onnx", 1)
    (task,) = tasks_of(folder, '[[model]]\npath = "m:f.onnx"\n')
    assert (task.source, task.name, task.hashed) == (str(folder / "m:f.onnx"), "m_f", True)


@pytest.mark.parametrize(
    ("path", "source"),
    [("pkg.nets:make", "pkg.nets:make"), ("nets/own.py:make", "{folder}/nets/own.py:make")],
)
def test_a_function_is_never_cached_and_has_no_files(folder: Path, path: str, source: str) -> None:
    (task,) = tasks_of(folder, f'[[model]]\npath = "{path}"\n')
    assert (task.source, task.name) == (source.format(folder=folder), "make")
    assert (task.files, task.hashed) == ((), False)


def test_links_that_go_round_end(folder: Path) -> None:
    (folder / "nets" / "up").symlink_to(folder)
    assert found(folder, '["nets/**/*.onnx"]') == ["nets/c.onnx", "nets/deep/d.onnx"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ('"missing.onnx"', "there is no file 'missing.onnx'"),
        ('"nots/*.onnx"', "matches no model"),
        ('"*.npz"', "matches no model, but files with .npz"),
        ('"nets"', "'nets' is a folder"),
        ('"/dev/null"', "is a device or a pipe"),
        ('""', 'path is ""'),
        ("3", "path is 3"),
        ("[]", "empty array"),
        ('["a.onnx", 3]', "path is 3"),
        ("{ a = 1 }", "path is"),
        ('"a\\u0000b"', "path is"),
        ('"nets/**.onnx"', "'**.onnx' in 'nets/**.onnx' is no pattern"),
        ('["a.onnx", "!nets/c.onnx"]', "takes nothing out"),
        ('["a.onnx", "!a.onnx"]', "takes everything out"),
        (f'"{"x" * 5000}.onnx"', "cannot be looked for"),
    ],
)
def test_paths_that_name_no_model(folder: Path, path: str, said: str) -> None:
    (problem,) = problems_of(folder, f"[[model]]\npath = {path}\n")
    assert said in problem.what
    assert "zoo.toml, line 2: model.path" in problem.where


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("A.onnx", "did you mean 'a.onnx'?"),
        ("nets/cc.onnx", "did you mean 'nets/c.onnx'?"),
        ("gone/a.onnx", "correct the path"),
    ],
)
def test_the_nearest_file_is_told(folder: Path, path: str, fix: str) -> None:
    (problem,) = problems_of(folder, f'[[model]]\npath = "{path}"\n')
    assert problem.fix == fix


def test_names_are_the_stems_and_longer_where_they_must_be(folder: Path) -> None:
    write_model(folder / "more" / "C.onnx", 1)
    write_model(folder / "more" / "e.onnx", 1)
    tasks = tasks_of(folder, '[[model]]\npath = ["**/*.onnx", "!b.onnx"]\n')
    assert [task.name for task in tasks] == ["a", "more-C", "e", "nets-c", "d"]


def test_two_kinds_of_one_model_have_their_suffix(folder: Path, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(folder / "a.pt2", "w") as archive:
        archive.writestr("a/archive_format", "pt2")
    tasks = tasks_of(folder, '[[model]]\npath = "a.*"\n')
    assert [task.name for task in tasks] == ["a-onnx", "a-pt2"]


def test_a_name_with_the_stem(folder: Path) -> None:
    text = '[[model]]\npath = "nets/**/*.onnx"\nname = "v2 {stem}"\n[[model]]\npath = "nets/**/*.onnx"\n'
    assert [task.name for task in tasks_of(folder, text)] == ["v2 c", "v2 d", "c", "d"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ('"one"', "path finds 2 models, which cannot all be called 'one'"),
        ("3", "name is 3"),
        ('"../up"', "cannot be a folder's name"),
        ('"<script>{stem}"', "cannot be a folder's name"),
        ('"a\\nb"', "cannot be a folder's name"),
    ],
)
def test_names_that_cannot_be(folder: Path, name: str, said: str) -> None:
    (problem,) = problems_of(folder, f'[[model]]\npath = "nets/**/*.onnx"\nname = {name}\n')
    assert said in problem.what and "line 3: model.name" in problem.where


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ('path = "a.onnx"', "is a model of the entry in line 1, too"),
        ('path = "b.onnx"\nname = "A"\nshapes.x = "1x3"', "would be called 'A'"),
        ('path = "*:f"\nname = "a"', "matches no model"),
    ],
)
def test_two_entries_with_one_folder(folder: Path, second: str, said: str) -> None:
    text = f'[[model]]\npath = "a.onnx"\nname = "a"\n[[model]]\n{second}\n'
    if "name" not in second:
        text = text.replace('name = "a"\n', "\n")
    (problem,) = problems_of(folder, text)
    assert said in problem.what


def test_names_that_cannot_be_and_differ_are_not_told_to_clash(folder: Path) -> None:
    names = ("one?", "<b>two")
    entries = [f'[[model]]\npath = "a.onnx"\nname = "{name}"\n' for name in names]
    problems = problems_of(folder, "".join(entries))
    assert [problem.what.partition(" cannot be a folder's name")[0] for problem in problems] == [
        f'"{name}"' for name in names
    ]


def test_unsafe_characters_of_files_are_replaced_in_names(folder: Path) -> None:
    write_model(folder / "odd" / "<script>\n.onnx", 1)
    (task,) = tasks_of(folder, '[[model]]\npath = "odd/*.onnx"\n')
    assert (task.name, task.source) == ("_script__", str(folder / "odd" / "<script>\n.onnx"))
    write_model(folder / "odd" / "?script?_.onnx", 1)
    (problem,) = problems_of(folder, '[[model]]\npath = "odd/*.onnx"\n')
    assert "would be called" in problem.what
    assert "\n" not in problem.what
