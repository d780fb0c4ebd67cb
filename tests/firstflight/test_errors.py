"""An error's causes, the first of all last."""

from firstflight.errors import causes


def test_causes_are_in_order() -> None:
    first, then, last = OSError("first"), ValueError("then"), KeyError("last")
    last.__cause__, then.__context__ = then, first
    assert list(causes(last)) == [last, then, first]


def test_a_circle_of_causes_ends() -> None:
    error = ValueError("same")
    error.__cause__ = KeyError("other")
    error.__cause__.__cause__ = error
    assert len(list(causes(error))) == 20
