"""The driver of the batch of chaos.py, as a process that can be killed: ADDRESS HOME TASKS REAL."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from trtsmith.converter.batch.driver import BatchOptions, run_batch  # noqa: E402
from trtsmith.converter.batch.execution import Event  # noqa: E402
from trtsmith.converter.batch.fleet.ray_executor import RayExecutor  # noqa: E402
from trtsmith.converter.batch.task import BatchTask, Needs  # noqa: E402
from trtsmith.converter.batch.task_record import TaskRecord, TaskStatus  # noqa: E402

FAILED = 70
"""The exit code of a driver that did not end its batch: Python's own, 1, is that of a batch in which a task failed."""

CRASH, REFUSED, KILLS_HOST = 7, 11, 17
"""Which task crashes its process, of every so many; which is refused; the one whose host is killed."""


def chaos_tasks(home: Path, count: int, real: int) -> Iterator[tuple[BatchTask, TaskStatus]]:
    """The tasks, with the status that each has to have in the end. Two of them share a model."""
    for number in range(count + real):
        words, status = ["nap=0.2"], TaskStatus.AGREE
        if number >= count:
            words = ["real"]
        elif number % CRASH == CRASH - 1:
            words, status = ["crash"], TaskStatus.CRASHED
        elif number % REFUSED == REFUSED - 1:
            words, status = ["refuse"], TaskStatus.REFUSED
        elif number == KILLS_HOST:
            words.append(f"kill-host={home / 'killed'}")
        name = f"real-{number}" if number >= count else f"net-{number // 2}/v{number % 2}"
        model = home / "models" / ("real.onnx" if number >= count else f"net-{number // 2}.onnx")
        task = BatchTask(
            name=name,
            model=name.partition("/")[0],
            source=str(model),
            words=(*words, f"log={home / 'began.log'}"),
            files=(model,),
            needs=Needs(timeout_s=120),
        )
        yield task, status


class Silent:
    """A BatchListener that prints what tells how the batch goes on."""

    def planned(self, total: int) -> None:
        print(f"{total} tasks", flush=True)

    def event(self, event: Event) -> None:
        if event.text.startswith("begun again"):
            print(f"{event.task}: {event.text}", flush=True)

    def ended(self, record: TaskRecord, source: str) -> None:
        print(f"{record.name}: {record.status.value}, {source}, attempt {record.attempts}", flush=True)


def main(arguments: Mapping[int, str]) -> int:
    address, home = arguments[1], Path(arguments[2])
    tasks = [task for task, _ in chaos_tasks(home, int(arguments[3]), int(arguments[4]))]
    options = BatchOptions(
        folder=home / "out",
        executor=lambda scratch: RayExecutor(
            address, scratch, worker="batchbench.chaos_worker", paths=[ROOT / "scripts"]
        ),
    )
    return run_batch(tasks, options, Silent()).exit_code


if __name__ == "__main__":
    try:
        ended = main(dict(enumerate(sys.argv)))
    except Exception:
        traceback.print_exc()
        ended = FAILED
    sys.exit(ended)
