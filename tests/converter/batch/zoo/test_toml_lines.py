"""Lines of keys: the keys are those of tomllib, whatever the text looks like."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from trtsmith.converter.batch.zoo.toml_lines import Keys, key_lines, nearest_line

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

AWKWARD = {
    "comments": "# a = 1\n\na = 1 # b = 2\n#[t]\n[t] # c = 3\nd = 4",
    "dotted keys": "a.b.c = 1\na.b.d = 2\n'a'.\"e\" . f = 3\n[a.g]\nh.i = 4\n",
    "quoted keys": '"a.b" = 1\n"c \\" d" = 2\n\'e " f\' = 3\n"\\u0041\\t" = 4\n"" = 5\n',
    "keys that look like numbers": "1 = 1\n2.1 = 3\n1979-05-27 = 4\ntrue = 5\n",
    "strings that look like keys": 'a = "b = 1"\nc = \'[d]\'\ne = "#"\n',
    "multi-line strings": 'a = """\n[[model]]\nb = 1\n\\"""\n"""\nc = \'\'\'\n[x]\ny = """\n\'\'\'\nd = 1\n',
    "quotes at the end of multi-line strings": "a = \"\"\"x\"\"\"\"\"\nb = '''y'''''\nc = \"\"\"\"\"\"\nd = ''''z'''\n",
    "a line that goes on": 'a = """one \\\n   two"""\nb = 1\n',
    "arrays": 'a = [\n  1, # one ]\n  "]",\n  [2,\n 3],\n  { b = 4 },\n]\nc = []\nd = [[], [[]]]\n',
    "inline tables": 'a = { b = 1, c.d = "}", e = { f = [ { g = 2 } ] } }\nh = {}\n',
    "arrays of tables": "[[m]]\na = 1\n[[m]]\n\n[m.s]\nb = 2\n[[m.n]]\nc = 3\n[[m.n]]\n[[m]]\nd = 4\n",
    "tables out of order": "[a.b]\nc = 1\n[d]\n[a]\ne = 2\n[a.f]\n",
    "blanks": "  [ a . b ]  \n\t c\t=\t1\t\n  [[ d ]]\n  e  .  f  =  2  \n",
    "windows": "a = 1\r\n[t]\r\nb = '''x\r\ny'''\r\nc = [\r\n1,\r\n]\r\n",
    "dates": "a = 1979-05-27 07:32:00\nb = 07:32:00.5\nc = [1979-05-27, 1979-05-27T00:32:00-07:00]\n",
    "numbers": "a = +1_000\nb = 0xff\nc = [1e6, -inf, nan]\n",
    "nothing": "\n \t\n# only a comment",
    "deep": "a = " + "[" * 60 + "]" * 60 + "\nb = 1\n",
}


def keys_of(value: Any, at: Keys = ()) -> Iterator[Keys]:
    """Of a document, every key and every position in an array."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*at, key)
        yield from keys_of(one, (*at, key))


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_every_key_has_a_line_and_nothing_else_has(text: str) -> None:
    assert set(key_lines(text)) == set(keys_of(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("text", "keys", "line"),
    [
        ("multi-line strings", ("c",), 6),
        ("multi-line strings", ("d",), 10),
        ("arrays", ("a", 1), 3),
        ("arrays", ("a", 2, 1), 5),
        ("arrays", ("a", 3, "b"), 6),
        ("arrays", ("c",), 8),
        ("arrays of tables", ("m",), 1),
        ("arrays of tables", ("m", 1), 3),
        ("arrays of tables", ("m", 1, "s", "b"), 6),
        ("arrays of tables", ("m", 1, "n", 1), 9),
        ("arrays of tables", ("m", 2, "d"), 11),
        ("tables out of order", ("a",), 1),
        ("tables out of order", ("a", "e"), 5),
        ("dotted keys", ("a", "e", "f"), 3),
        ("windows", ("t", "c", 0), 6),
        ("quotes at the end of multi-line strings", ("d",), 4),
        ("deep", ("b",), 2),
    ],
)
def test_lines(text: str, keys: Keys, line: int) -> None:
    assert key_lines(AWKWARD[text])[keys] == line


def test_keys_of_random_documents() -> None:
    """Pieces of awkward texts in any order, each in a table of its own."""
    pick = random.Random(0)
    pieces = [text for name, text in AWKWARD.items() if "[[" not in text and "tables" not in name]
    pieces = [text for text in pieces if not any(line.lstrip().startswith("[") for line in text.splitlines())]
    for _ in range(200):
        chosen = pick.sample(pieces, pick.randint(1, 5))
        text = "".join(f"[[t]]\n{piece}\n" for piece in chosen)
        lines = key_lines(text)
        assert set(lines) == set(keys_of(tomllib.loads(text)))
        starts = [
            1 + sum(piece.count("\n") + 2 for piece in chosen[:number]) for number in range(len(chosen))
        ]
        assert [lines["t", number] for number in range(len(chosen))] == starts


def test_a_key_that_is_not_there_has_the_line_of_the_table_around_it() -> None:
    lines = key_lines("a = 1\n[t]\n[t.s]\nb = 2\n")
    assert nearest_line(lines, ("t", "s", "missing", 0)) == 3
    assert nearest_line(lines, ("other",)) == 1
    assert nearest_line(lines, ()) == 1
