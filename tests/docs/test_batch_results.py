"""The page on results of a batch names every entry of the schema, every status, and the thresholds that the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.diff import SCHEMA_FILE as DIFF_SCHEMA
from trtsmith.converter.batch.results.document import SCHEMA_FILE
from trtsmith.converter.batch.results.junit import KINDS
from trtsmith.converter.batch.task import TaskStatus

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "batch-results.md").read_text(
    encoding="utf-8"
)


def names(schema: dict[str, Any]) -> set[str]:
    """Every entry that the schema has, at any depth."""
    found = set(schema.get("properties", {}))
    parts = [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", ()),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    return found.union(*(names(part) for part in parts if isinstance(part, dict)))


def test_every_entry_of_the_schemas_is_described() -> None:
    described = set(re.findall(r"`([a-z0-9_]+)`", PAGE))
    schema = set().union(
        *(names(json.loads(file.read_text(encoding="utf-8"))) for file in (SCHEMA_FILE, DIFF_SCHEMA))
    )
    assert len(schema) > 60 and schema <= described


def test_every_status_stands_in_the_table_with_what_it_is_to_junit() -> None:
    rows = dict(re.findall(r"^\| `([a-z]+)` \| [^|]+ \| ([a-z]+) \|$", PAGE, flags=re.M))
    assert rows == {status.value: KINDS[status] for status in TaskStatus}
