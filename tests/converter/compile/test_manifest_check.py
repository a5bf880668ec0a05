"""A library is compared with the definitions, and each difference names both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.compile.manifest_check import check_manifest
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS

WITH_FIELDS = next(op for op in OPS if any(f.minimum is not None for f in op.fields))


def changed(**parts: object) -> list[OpDef]:
    return [replace(op, **parts) if op is WITH_FIELDS else op for op in OPS]  # type: ignore[arg-type]


def differences(operators: list[OpDef]) -> list[str]:
    with pytest.raises(ConversionError) as caught:
        check_manifest(plugin_library(), operators)
    assert caught.value.exit_code == 1
    assert all(all(problem.to_json().values()) for problem in caught.value.problems)
    return [problem.what for problem in caught.value.problems]


def test_an_operator_without_a_definition() -> None:
    (what,) = differences([op for op in OPS if op is not WITH_FIELDS])
    assert WITH_FIELDS.name in what


def test_both_sides_are_told() -> None:
    first, *others = WITH_FIELDS.inputs
    assert differences(changed(version="7")) == ["version: the library has '1', the definition '7'"]
    (what,) = differences(changed(inputs=(replace(first, rank=7), *others)))
    assert what == f"rank of input {first.name!r}: the library has {first.rank}, the definition 7"


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_text("no library")
    with pytest.raises(ConversionError, match="does not load"):
        check_manifest(tmp_path / "lib.so", OPS)
