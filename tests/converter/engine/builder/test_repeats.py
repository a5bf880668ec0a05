"""Messages that repeat for every node are summed up."""

from __future__ import annotations

from trtsmith.converter.engine.builder.repeats import Repeats, kind_of_message


def told(*messages: str) -> list[str]:
    lines: list[str] = []
    repeats = Repeats(lines.append)
    for message in messages:
        repeats(message)
    repeats.flush()
    repeats.flush()  # nothing is left to tell
    return lines


def test_of_a_kind_three_are_told_and_how_many_more_there_were() -> None:
    lines = told(*(f"Searching for plugin: Gate, of node /b{i}/act" for i in range(2001)))
    assert lines == [
        *(f"Searching for plugin: Gate, of node /b{i}/act" for i in range(3)),
        "... 1,998 more like this: Searching for plugin: Gate, of node /b2000/act",
    ]


def test_one_more_is_told_as_it_is() -> None:
    assert told("a 1", "a 2", "a 3", "a 4") == ["a 1", "a 2", "a 3", "a 4"]


def test_kinds_that_come_in_turns_are_counted_apart() -> None:
    lines = told(*(text for i in range(10) for text in (f"made layer {i}", f"set type of {i}")))
    assert lines[:6] == [
        "made layer 0",
        "set type of 0",
        "made layer 1",
        "set type of 1",
        "made layer 2",
        "set type of 2",
    ]
    assert lines[6:] == [
        "... 7 more like this: made layer 9",
        "... 7 more like this: set type of 9",
    ]


def test_what_differs_in_words_is_another_kind() -> None:
    assert kind_of_message("Total Weights Memory: 80 bytes") != kind_of_message(
        "Total Activation Memory: 80 bytes"
    )
    assert kind_of_message("made 'a b' [1, 2]") == kind_of_message("made 'c' [1, 2, 3]")
    assert kind_of_message("inputs: [a -> (1, 2)[FLOAT]]") == kind_of_message("inputs: [b -> (7)[FLOAT]]")
