"""The arguments of an engine that the command line reads before the engine does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Options of engines without a value. The value of every other option is the next argument.
FLAGS = frozenset({"--feed", "--resume", "--dry-run", "--second", "--lower-case"})
_HELP = frozenset({"--help", "-h", "-V", "--version"})


@dataclass(frozen=True)
class Arguments:
    """The names, and the options in order with their values (`None`: a flag, or a value is missing)."""

    names: tuple[str, ...]
    options: tuple[tuple[str, str | None], ...]

    @property
    def ask_for_help(self) -> bool:
        """Whether the engine would print the help or the version."""
        return any(name in _HELP and value is None for name, value in self.options)

    def has(self, *names: str) -> bool:
        """Return whether one of these options is given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        """Return the values of these options, in order."""
        return [value for name, value in self.options if name in names and value is not None]

    def only(self, *names: str) -> list[str]:
        """Return these options as arguments."""
        return [_written(name, value) for name, value in self.options if name in names]

    def without(self, *names: str) -> list[str]:
        """Return all options except these as arguments, without the names."""
        return [_written(name, value) for name, value in self.options if name not in names]


def read(arguments: Sequence[str]) -> Arguments:
    """Split arguments into names and options. The engine checks the options."""
    names: list[str] = []
    options: list[tuple[str, str | None]] = []
    remaining = list(reversed(arguments))
    while remaining:
        argument = remaining.pop()
        if argument == "--":
            names += reversed(remaining)
            break
        if not argument.startswith("-") or argument == "-":
            names.append(argument)
            continue
        name, equals, value = argument.partition("=")
        if equals:
            options.append((name, value))
        elif (
            name in FLAGS or not name.startswith("--") or not remaining or _requests_text(name, remaining[-1])
        ):
            options.append((name, None))
        else:
            options.append((name, remaining.pop()))
    return Arguments(tuple(names), tuple(options))


def _requests_text(name: str, following: str) -> bool:
    """Return whether the option requests help or the version: `--version` with a value is a QUIC version."""
    return name == "--help" or (name == "--version" and following.startswith("-"))


def _written(name: str, value: str | None) -> str:
    return name if value is None else f"{name}={value}"
