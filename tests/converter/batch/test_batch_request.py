"""What a request for a batch is put together from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trtsmith.converter.batch import batch_request
from trtsmith.converter.batch.batch_request import BatchRequest, run_request
from trtsmith.converter.batch.cache import file_hashes
from trtsmith.converter.batch.cache.keys import Keys
from trtsmith.converter.batch.cache.machine_facts import MachineFacts
from trtsmith.converter.batch.driver import BatchOptions
from trtsmith.converter.batch.fleet.shipped_files import FileShelf
from trtsmith.converter.batch.task import BatchTask


def test_a_file_is_hashed_once_for_keys_and_for_what_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models have gigabytes: the executor of a cluster gets the hashes that the keys are made of."""
    model = tmp_path / "m.onnx"
    model.write_bytes(b"model")
    task = BatchTask("m", "m", str(model), (), (model,))
    hashed: list[Path] = []
    really = file_hashes._hashed
    monkeypatch.setattr(file_hashes, "_hashed", lambda path: (hashed.append(path), really(path))[1])
    shelves: list[FileShelf] = []

    def executor(request: BatchRequest, scratch: Path, hashes: file_hashes.FileHashes) -> Any:
        del request, scratch
        shelves.append(FileShelf(None, [task], hashes))

    def run(tasks: Any, options: BatchOptions, listener: Any) -> Any:
        del listener
        options.executor(tmp_path)
        here = MachineFacts(versions={"trtsmith": "1"}, flavours={"tensorrt_rtx": "1"}, rules="r")
        assert Keys(lambda _: here, options.hashes).of(tasks[0])
        assert [content.bytes for content in shelves[0].contents(tasks[0])] == [5]

    monkeypatch.setattr(batch_request, "_executor", executor)
    monkeypatch.setattr(batch_request, "run_batch", run)
    listener: Any = None
    run_request(BatchRequest([task], tmp_path / "out"), listener, print)
    assert hashed == [model]
