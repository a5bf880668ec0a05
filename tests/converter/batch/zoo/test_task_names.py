"""Task names are valid folder names."""

from __future__ import annotations

import pytest

from trtsmith.converter.batch.zoo.model_sources import (
    MOST_BYTES,
    MOST_CHARACTERS,
    folded,
    name_fault,
    safe_name,
    unique_names,
)

BAD = {
    "": "empty",
    "..": "begins with a dot",
    ".hidden": "begins with a dot",
    "-x": "a dash",
    " a": "a blank",
    "a.": "ends with a dot",
    "a/b": "'/'",
    "a\\b": "file system",
    "a:b": "':'",
    "<script>": "'<'",
    "a\nb": "a newline",
    "a\x1b[31m": "control character",
    "a\u202eb": "control character",
    "\ud800": "control character",
    "x" * (MOST_CHARACTERS + 1): "longer",
    "\u4e00" * MOST_CHARACTERS: "longer",
    "NUL": "device",
    "com1.onnx": "device",
    "Results.JSON": "of the batch itself",
    "index.html": "of the batch itself",
}


@pytest.mark.parametrize(("name", "said"), BAD.items())
def test_names_that_no_folder_can_have(name: str, said: str) -> None:
    assert said in name_fault(name)
    assert name_fault(safe_name(name)) == ""


@pytest.mark.parametrize(
    "name", ["a", "my model", "yolo-v8.2_m", "détecteur", "模型", "a(1)", "a&b 'c'", "console"]
)
def test_names_that_a_folder_can_have(name: str) -> None:
    assert name_fault(name) == ""
    assert safe_name(name) == name
    assert len(name.encode()) <= MOST_BYTES


def test_what_is_one_folder_somewhere_is_folded_alike() -> None:
    assert folded("Model") == folded("mODEL")
    assert folded("e\u0301") == folded("\u00e9")
    assert folded("Stra\u00dfe") == folded("STRASSE")
    assert folded("a") != folded("b")


@pytest.mark.parametrize(
    ("candidates", "names"),
    [
        ([["net", "a-net"], ["other", "a-other"], ["Net", "b-Net"]], ["a-net", "other", "b-Net"]),
        # a name that is given stays, and a longer one may be taken too
        ([["net"], ["net", "a-net"], ["net", "b-net", "c-b-net"]], ["net", "a-net", "b-net"]),
        ([["a-net"], ["net", "a-net", "x-a-net"], ["net", "b-net"]], ["a-net", "x-a-net", "b-net"]),
    ],
)
def test_names_are_longer_only_where_two_models_have_one(
    candidates: list[list[str]], names: list[str]
) -> None:
    assert unique_names(candidates) == (names, [])


def test_models_that_stay_alike_are_told() -> None:
    names, clashes = unique_names([["net"], ["NET"], ["other"]])
    assert (names[2], clashes) == ("other", [[0, 1]])
