"""Suggestions for a misspelt word, equal on the command line and in a zoo's file."""

from __future__ import annotations

import difflib

import pytest

from trtsmith.converter.base.options.suggestions import misspelt, nearest

FLAGS = ("--shapes", "--workspace", "--keep-fp32", "--flavour")


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("--shape", FLAGS, "--shapes"),
        ("workspce", FLAGS, "--workspace"),
        ("keepFp32", FLAGS, "--keep-fp32"),
        ("KEEP_FP32", FLAGS, "--keep-fp32"),
        ("rtx", ("tensorrt", "tensorrt_rtx"), "tensorrt_rtx"),  # in one of them only
        ("ten", ("tensorrt", "tensorrt_rtx"), None),  # in both
        ("rt", ("tensorrt_rt",), None),  # two letters are in much
        ("frobnicate", ("locate", "convert"), None),
        ("", ("a", "bb"), None),
        ("x", (), None),
    ],
)
def test_nearest(word: str, known: tuple[str, ...], meant: str | None) -> None:
    assert nearest(word, known) == meant
    assert nearest(word, iter(known)) == meant


def test_two_letters_that_changed_places_are_a_misspelling() -> None:
    assert misspelt("Rleu", ("Relu", "Selu", "Erf")) == ["Relu"]


def test_words_of_other_lengths_are_not_compared_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difflib, "SequenceMatcher", None)
    assert misspelt("n" * 900_000, ("NonMaxSuppression", "GridSample")) == []
