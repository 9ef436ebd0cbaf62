"""JAAS lines are read as Kafka reads them, and never repeated in an error."""

import pytest

from kwire.security.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="a" password="b"', {"username": "a", "password": "b"}),
        ("user_a='x y' user_b=z", {"user_a": "x y", "user_b": "z"}),
        (r'user_a="say \"hi\"; = \\"', {"user_a": 'say "hi"; = \\'}),
        ('user_a=""', {"user_a": ""}),
        ('\n  user_a="="\n  user_b=";"', {"user_a": "=", "user_b": ";"}),
        ("", {}),
    ],
)
def test_options_are_read(options, expected):
    """Quoted or not, over several lines, with characters that mean something outside quotes."""
    line = parse_jaas(f" {PLAIN} required {options} ; ")
    assert (line.module_name, line.options) == ("PlainLoginModule", expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ends with a semicolon"),
        (f"{PLAIN} required", "ends with a semicolon"),
        (f"{PLAIN} user_a=hush;", "CLASS required"),
        (f'{PLAIN} required user_a="hush;', "not closed"),
        (f"{PLAIN} required user_a hush;", "option 1"),
        (f"{PLAIN} required user_a=hush user_b=;", "option 2"),
        (f"{PLAIN} required a=hush; {PLAIN} required b=hush;", "one login module"),
    ],
)
def test_an_error_says_where_and_not_what(text, problem):
    """A password in a line that isn't closed doesn't get into a log."""
    with pytest.raises(JaasError, match=problem) as caught:
        parse_jaas(text)
    assert "hush" not in str(caught.value)
