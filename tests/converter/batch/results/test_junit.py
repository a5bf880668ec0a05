"""junit.xml, as a CI system reads it, and what a page says beside the figures."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.converter.batch.results.sample import HOSTILE_NAMES, PROBLEM, record, report, zoo
from trtsmith.converter.batch.results.document import results_document, task_row
from trtsmith.converter.batch.results.pages import KINDS, index_page, junit_text
from trtsmith.converter.batch.task import TaskRecord, TaskStatus


def parsed(*records: TaskRecord, source: str = "run") -> ElementTree.Element:
    text = junit_text(results_document([task_row(one, source) for one in records], title="zoo"))
    return ElementTree.fromstring(text.encode("utf-8"))


def test_every_status_has_a_kind_and_passing_is_passing() -> None:
    assert set(KINDS) == set(TaskStatus)
    assert {status for status, kind in KINDS.items() if kind == "passed"} == {
        s for s in TaskStatus if s.passed
    }


def test_a_suite_for_each_model_with_the_counts_of_its_cases() -> None:
    root = parsed(*zoo(25))
    assert root.tag == "testsuites" and len(root) == 25
    for element, cases in [(root, list(root.iter("testcase")))] + [
        (suite, suite.findall("testcase")) for suite in root
    ]:
        counted = [
            sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")
        ]
        assert [int(element.attrib[name]) for name in ("tests", "failures", "errors", "skipped")] == [
            len(cases),
            *counted,
        ]
        assert abs(
            float(element.attrib["time"]) - sum(float(case.attrib["time"]) for case in cases)
        ) < 0.01 * len(cases)
    names = [(case.attrib["classname"], case.attrib["name"]) for case in root.iter("testcase")]
    assert len(set(names)) == 200 and ("network-000", "precision fp16, target sm86") in names


def test_failures_and_errors_say_what_is_known() -> None:
    root = parsed(
        record("refused", TaskStatus.REFUSED, problems=(PROBLEM, PROBLEM)),
        record("disagree", TaskStatus.DISAGREE, report=report(agrees=False, relative=0.5, outputs=1)),
        record("timeout", TaskStatus.TIMEOUT, problems=()),
        record("cancelled", TaskStatus.CANCELLED),
        source="cache",
    )
    cases = {case.attrib["classname"]: case for case in root.iter("testcase")}
    failure = cases["refused"].find("failure")
    assert failure is not None and failure.attrib["type"] == "refused"
    assert failure.attrib["message"] == f"refused: {PROBLEM.what} (and 1 more)"
    assert all(part in (failure.text or "") for part in PROBLEM.to_json().values())
    failure = cases["disagree"].find("failure")
    assert failure is not None and failure.attrib["message"] == (
        "disagree (graph only): largest relative error 5.0e-01; the engine itself was not run"
    )
    assert failure.text == "y0: relative error 5.0e-01, allowed 0.0001"
    error = cases["timeout"].find("error")
    assert error is not None and error.attrib == {"message": "timeout", "type": "timeout"}
    assert cases["cancelled"].find("skipped") is not None
    assert "from: cache" in (cases["refused"].findtext("system-out") or "")


def test_warnings_and_the_command_are_the_output_of_a_case() -> None:
    (case,) = parsed(record("a", warnings=("one", "two"), command=("trtsmith", "convert", "a b.onnx"))).iter(
        "testcase"
    )
    assert (case.findtext("system-out") or "").split("\n") == [
        "warning: one",
        "warning: two",
        "verdict: agree (graph only): largest relative error 2.0e-05; the engine itself was not run",
        "command: trtsmith convert 'a b.onnx'",
    ]
    assert [child.tag for child in case] == ["system-out"]


def test_names_that_xml_cannot_hold_are_shown_as_far_as_it_can() -> None:
    everything = "".join(map(chr, (0, 8, 9, 10, 11, 31, 0x7F, 0xD800, 0xFFFE, 0xFFFF, 0x1F600)))
    root = parsed(
        *(record(name, TaskStatus.REFUSED, warnings=(name,)) for name in (*HOSTILE_NAMES, everything))
    )
    shown = {case.attrib["classname"] for case in root.iter("testcase")}
    assert HOSTILE_NAMES[0] in shown and "two\nlines and a tab\t" in shown and "عربي نموذج" in shown
    assert "control \ufffd\ufffd\ufffd[31m" in shown and "a\ufffdlone surrogate" in shown
    assert "\ufffd\ufffd\t\n\ufffd\ufffd\x7f\ufffd\ufffd\ufffd\U0001f600" in shown


def test_a_page_says_that_no_engine_ran() -> None:
    def shown(*runs: bool) -> str:
        made = [report() for _ in runs]
        for one, ran in zip(made, runs, strict=True):
            one["verdict"]["engine_run"] = ran
        rows = [task_row(record(f"m{number}", report=one)) for number, one in enumerate(made)]
        refused = task_row(record("refused", TaskStatus.REFUSED))
        return index_page(results_document([*rows, refused], title="zoo"))

    assert '"No engine ran: ' in shown(False, False) and '"1 of 2 engines ran: ' in shown(True, False)
    assert '"not_run":""' in shown(True, True)
