from __future__ import annotations

import pytest

from cuvee.errors import UsageError
from cuvee.steps.reading import templates

CHOICE = {"question": "Which?", "choices": ["a {brace}", "b", 3], "answer": 2}


@pytest.mark.parametrize("template, record, text", [
    ("answer", {"answer": "whole column"}, "whole column"),
    ("{question}\n{n}", {"question": "How many?", "n": 4}, "How many?\n4"),
    ("{{{question}}}", {"question": "in {braces}"}, "{in {braces}}"),
    ("{question} {choices[answer]}", CHOICE, "Which? 3"),
    ("{choices[answer]}", CHOICE | {"answer": "0"}, "a {brace}"),
    ("{choices[answer]}", CHOICE | {"answer": " b"}, "b"),
    ("{choices[answer]}", CHOICE | {"answer": 3}, None),   # past the end
    ("{choices[answer]}", CHOICE | {"answer": -1}, None),  # not the last
    ("{choices[answer]}", CHOICE | {"answer": True}, None),
    ("{choices[answer]}", CHOICE | {"answer": "b: b"}, None),
    ("{choices[answer]}", CHOICE | {"choices": "abc"}, None),
    ("{choices}", CHOICE, None), ("{question}", {"question": None}, None), ("{question}", {}, None), ("{question}", {"question": False}, None)])
def test_a_template_is_filled_from_a_record_or_not_at_all(template, record, text):
    assert templates.render(template, record) == text


def test_the_columns_that_a_template_needs():
    assert templates.columns("{q}\n{choices[answer]} {q}") == ["q", "choices", "answer"] and templates.columns("whole column") == ["whole column"]


@pytest.mark.parametrize("template", ["", "{open", "{}", "{0}", "{a.b}", "{a!r}", "{a:>5}", "{a[b][c]}", "{a[]}", "{a[b}"])
def test_what_is_no_template_is_an_error_before_any_record_is_read(template):
    with pytest.raises(UsageError, match="is no template"):
        templates.columns(template)
