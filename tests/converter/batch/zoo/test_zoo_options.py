"""Options of a zoo as arguments of `trtsmith convert`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.batch.zoo.zoos import COMMANDS
from trtsmith.converter.batch.zoo.zoo_options import OptionError, kind_of_action, takes_several, words_of

FOLDER = Path("/zoo")
OPTIONS = COMMANDS.convert.options()


def words(name: str, value: object) -> tuple[str, ...]:
    return words_of(name, OPTIONS[name], value, FOLDER)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("precision", "fp16", ["--precision", "fp16"]),
        ("workspace", 64, ["--workspace", "64"]),
        ("timeout", 0.5, ["--timeout", "0.5"]),
        ("embed-plugins", True, ["--embed-plugins"]),
        ("embed-plugins", False, []),
        ("no-verify", True, ["--no-verify"]),
        ("mend", True, ["--mend"]),
        ("mend", False, ["--no-mend"]),
        ("no-mend", True, ["--no-mend"]),
        ("no-mend", False, ["--mend"]),
        ("no-plugins-from-packages", True, ["--no-plugins-from-packages"]),
        ("target", "sm86,sm89", ["--target", "sm86,sm89"]),
        ("target", ["sm86", "sm89"], ["--target", "sm86,sm89"]),
        ("keep-fp32", "/head/*", ["--keep-fp32", "/head/*"]),
        ("keep-fp32", ["/a", "Add"], ["--keep-fp32", "/a", "--keep-fp32", "Add"]),
        ("keep-fp32", [], []),
        ("keep-fp32", ["-a b", "--rtol"], ["--keep-fp32=-a b", "--keep-fp32=--rtol"]),
        ("rtol", 1e-3, ["--rtol", "0.001"]),
        ("rtol", {"": 1e-2, "boxes": 1e-3}, ["--rtol", ":0.01", "--rtol", "boxes:0.001"]),
        ("inputs", "x.npz", ["--inputs", "/zoo/x.npz"]),
        ("inputs", "../other/./x.npz", ["--inputs", "/other/x.npz"]),
        ("inputs", "/tmp/x.npz", ["--inputs", "/tmp/x.npz"]),
        ("calibration", ["a.npz", "b.npz"], ["--calibration", "/zoo/a.npz", "--calibration", "/zoo/b.npz"]),
        (
            "ops",
            ["mine.py", "pkg/", "my_ops.more"],
            ["--ops", "/zoo/mine.py", "--ops", "/zoo/pkg", "--ops", "my_ops.more"],
        ),
        ("reference", {"acme::Gate": "gate:compute"}, ["--reference", "acme::Gate=gate:compute"]),
        ("shapes", "x=1x3", ["--shapes", "x=1x3"]),
        ("shapes", {"x": "1x3:2x3:4x3"}, ["--shapes", "x=1x3:2x3:4x3"]),
        ("shapes", {"x": [1, 3], "y": []}, ["--shapes", "x=1x3", "--shapes", "y="]),
        ("shapes", {"x": [[1, 3], [2, 3], [4, 3]]}, ["--shapes", "x=1x3:2x3:4x3"]),
        ("shapes", {"x": {"max": [4, 3], "min": "1x3", "opt": [2, 3]}}, ["--shapes", "x=1x3:2x3:4x3"]),
        ("shapes", {"-x": "1x3"}, ["--shapes=-x=1x3"]),
        ("values", {"k": 3}, ["--values", "k=3"]),
        ("values", {"k": {"min": 1, "opt": 2, "max": 3}}, ["--values", "k=1:2:3"]),
        ("values", {"sizes": [1, 1]}, ["--values", "sizes=[1,1]"]),
        ("values", {"sizes": [[1, 1], [2, 3], [8, 8]]}, ["--values", "sizes=[1,1]:[2,3]:[8,8]"]),
        (
            "freeze",
            {"axes": [0, 1], "k": 3, "t": True},
            ["--freeze", "axes=[0,1]", "--freeze", "k=3", "--freeze", "t=true"],
        ),
        ("freeze", {"grid": "@g.npy"}, ["--freeze", "grid=@/zoo/g.npy"]),
        ("freeze", ["grid=@g.npy"], ["--freeze", "grid=@/zoo/g.npy"]),
        ("minShapes", "x:1x3,y:2", ["--minShapes", "x:1x3,y:2"]),
    ],
)
def test_words(name: str, value: object, expected: list[str]) -> None:
    found = words(name, value)
    assert list(found) == expected
    COMMANDS.convert.parse(found)  # the parser takes them, whatever they begin with


def test_home_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert words("inputs", "~/x.npz") == ("--inputs", "/home/me/x.npz")


def test_a_folder_above_a_link_is_not_the_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "real" / "x.npz").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "inner")
    (word,) = words_of("inputs", OPTIONS["inputs"], "link/../x.npz", tmp_path)[1:]
    assert Path(word).is_file()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("precision", ["fp16", "bf16"], "takes one value, not an array"),
        (
            "precision",
            True,
            "takes one of fp32, fp16, bf16, int8, fp8, int8+fp16, int8+bf16, fp8+fp16, fp8+bf16, not true",
        ),
        ("precision", {"a": "fp16"}, "is no table"),
        ("embed-plugins", "yes", "is true or false"),
        ("mend", 1, "is true or false"),
        ("target", [], "has no value in it"),
        ("inputs", "", "names no file"),
        ("inputs", "a\0b", "has a NUL in it"),
        ("keep-fp32", [["a"]], "takes NAME|OP"),
        ("shapes", [1, 3], "shapes = [1, 3] has no name of an input"),
        ("shapes", [[1, 3], [2, 3], [4, 3]], "shapes = [[1, 3], [2, 3], [4, 3]] has no name of an input"),
        ("shapes", {"x": 3}, "shapes of 'x' is 3"),
        ("shapes", {"x": [1, 2.5]}, "shapes of 'x' is [1, 2.5]"),
        ("shapes", {"x": [True]}, "shapes of 'x'"),
        ("shapes", {"x": {"min": [1], "max": [2]}}, "shapes of 'x'"),
        ("values", {"x": "1", "y": 0.5}, "values of 'y' is 0.5"),
        ("freeze", {"x": float("nan")}, "freeze of 'x'"),
        ("rtol", {"x": [1]}, "rtol of 'x'"),
    ],
)
def test_values_that_an_option_cannot_have(name: str, value: object, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        words(name, value)
    assert said in str(caught.value)
    assert caught.value.expected and caught.value.fix


def test_values_with_commas_or_names_are_those_that_the_help_shows_so() -> None:
    known = OPTIONS | COMMANDS.bench.options()
    commas = {name for name, action in known.items() if kind_of_action(action).commas}
    named = {name for name, action in OPTIONS.items() if kind_of_action(action).named}
    assert commas == {"target", "at"}
    assert all(takes_several(known[name]) for name in commas | named)
    shown = {
        name for name, action in OPTIONS.items() if "=" in str(action.metavar) or ":]" in str(action.metavar)
    }
    assert shown == named
