import pytest

from hansei.client.cli.show.words import count_noun, format_percent, format_points


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


@pytest.mark.parametrize(
    ("share", "percent", "points"),
    [(0.625, "63%", "+63"), (0.635, "64%", "+64"), (0.0, "0%", "+0"), (-0.625, "-62%", "-62"), (-0.001, "0%", "+0")],
)
def test_halves_are_rounded_as_in_the_console(share: float, percent: str, points: str) -> None:
    assert (format_percent(share), format_points(share)) == (percent, points)
