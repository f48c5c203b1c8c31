import pytest

from hansei.client.cli.show.words import count_noun


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "bullet", "0 bullets"),
        (1, "failed trajectory", "1 failed trajectory"),
        (2, "failed trajectory", "2 failed trajectories"),
        (2, "survey", "2 surveys"),
    ],
)
def test_a_noun_follows_its_number(number: int, noun: str, text: str) -> None:
    assert count_noun(number, noun) == text
