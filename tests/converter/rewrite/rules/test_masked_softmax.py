"""float16 Softmax without need of Casts: of few keys, without an added mask, in another type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.rewrite.running import loaded
from tests.rule_examples.matrices.masked_softmax import KEYS, attention
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.rules.matrices.masked_softmax import MOST_KEYS
from trtsmith.converter.rewrite.target import RTX


def fires(text: str, folder: Path) -> bool:
    done = rewrite(loaded(text, folder), target=RTX)
    return "masked-softmax" in {record.pass_name for record in done.rewrites}


def masked(keys: int) -> str:
    return attention("s = Add (a, bias)", f", float16[1,1,3,{keys}] bias", str(keys))


@pytest.mark.parametrize(("keys", "taken"), [(MOST_KEYS, False), (MOST_KEYS + 1, True)])
def test_of_few_keys_it_stays(keys: int, taken: bool, tmp_path: Path) -> None:
    assert fires(masked(keys), tmp_path) is taken


@pytest.mark.parametrize(
    "text",
    [
        attention("s = Identity (a)"),
        attention("c = Cast <to = 10> (closed)\n s = Where (keep, a, c)", f", bool[1,1,1,{KEYS}] keep"),
        masked(KEYS).replace("axis = -1", "axis = 2"),
        masked(KEYS).replace("float16", "float"),
        masked(KEYS).replace("float16", "bfloat16"),
    ],
    ids=["no mask", "scores chosen", "another axis", "float32", "bfloat16"],
)
def test_others_are_left_alone(text: str, tmp_path: Path) -> None:
    assert not fires(text, tmp_path)
