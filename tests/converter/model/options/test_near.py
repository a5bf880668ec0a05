"""What a word was meant to be: the same guess for the command line and for a zoo's file."""

from __future__ import annotations

import pytest

from trtsmith.converter.model.options.near import nearest

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
