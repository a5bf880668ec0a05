"""Paths of a folder that does not stay leave no trace in a record."""

from __future__ import annotations

from trtsmith.converter.batch.plain_data import with_text


def test_texts_are_changed_at_every_depth_and_nothing_else() -> None:
    there = {"where": ["/view/a.onnx: node", ("/view/b", 3, None)], "/view/key": 0.5, "other": True}
    assert with_text(there, "/view", "") == {
        "where": ["/a.onnx: node", ["/b", 3, None]],
        "/key": 0.5,
        "other": True,
    }
