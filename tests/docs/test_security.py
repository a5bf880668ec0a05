"""Every promise of SECURITY.md, which is in bold there, is the name of a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = " ".join((ROOT / "SECURITY.md").read_text().split())
NOT_PROMISED = re.compile(r"What is not promised:.*?A saved PyTorch program")
PROMISES = re.findall(r"\*\*([^*:]+)\.\*\*", NOT_PROMISED.sub("", TEXT.partition("## What is promised")[2]))
ADVICE = "Load engines only from people whose programs you would run"
NAMES = [
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def test_(\w+)", path.read_text(), flags=re.M)
]


@pytest.mark.parametrize("promise", [promise for promise in PROMISES if promise != ADVICE])
def test_a_promise_is_the_name_of_a_test(promise: str) -> None:
    words = re.sub(r"\W+", "_", promise.lower()).strip("_")
    assert any(name.startswith(words) for name in NAMES), words


def test_promises_are_found() -> None:
    assert ADVICE in PROMISES and len(PROMISES) >= 10
