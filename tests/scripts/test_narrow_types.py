"""16-bit networks never agree where their type cannot hold their values, and agree elsewhere."""

from __future__ import annotations

import json

import pytest

from judgeproof.narrow_networks import Narrow, cases
from judgeproof.narrow_types import RECORD, row


@pytest.mark.parametrize(("name", "dtype", "network"), list(cases()), ids=[name for name, *_ in cases()])
def test_what_a_type_does_not_hold_never_agrees(name: str, dtype: str, network: Narrow) -> None:
    found = row(name, dtype, network, {name: None})
    assert (found["verdict"] == "agree") == network.held, found["reason"]
    precision = {"float16": "fp16", "bfloat16": "bf16"}[dtype]
    helps = f"export the model in float32, and convert it with --precision {precision}, which keeps such nodes in float32"
    assert network.held or found["advice"].startswith(helps)


def test_the_record_has_every_network() -> None:
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    assert [one["network"] for one in rows] == [name for name, *_ in cases()]
