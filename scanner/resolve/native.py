"""Runs `firstflight-resolve` for the resolve stage: its list of names, its arguments, its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.settings.types import RESOLVER_RATE
from firstflight.shard import WHOLE, Shard
from firstflight.system import files
from scanner.driver import process
from scanner.driver.feed import Feed
from scanner.driver.segments import begun
from scanner.resolver.configured import configured_resolvers

ENGINE = process.Engine("resolver", "what was resolved is kept, and the stage continues there")
# After so many unanswered questions in a row the engine checks whether the resolver answers at all.
SILENCE = 50


class ResolverDown(InputError):
    """No resolver answers (exit 3); earlier answers are kept."""


def write_names(names: Iterable[list[str]], folder: Path) -> None:
    """Write names.txt, a name per line: segments refer to its line numbers.

    UsageError if there are segments and the list has changed since.
    """
    path = folder / "names.txt"
    with files.replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            for batch in names:
                file.writelines(f"{name}\n" for name in batch)
        same = path.is_file() and files.sha256_of(path) == files.sha256_of(temporary)
        if begun(folder / "segments") and not same:
            raise UsageError(
                f"{path} no longer matches the target list, and some of it has been resolved: "
                "run the resolve stage with --again"
            )


def arguments(settings: Settings, folder: Path, shard: Shard = WHOLE) -> list[str]:
    """Return the argument list of `firstflight-resolve`, with its files in `folder`.

    A shard has its share of the rate, also of the engine's default, and of the questions under way.
    """
    resolve = settings.resolve
    options: process.Options = [
        ("--names", folder / "names.txt"),
        ("--segments", folder / "segments"),
        ("--summary", folder / "summary.json"),
        ("--progress", folder / process.STATE),
        ("--concurrency", max(1, resolve.concurrency // shard.of)),
        ("--timeout", resolve.timeout_s),
        ("--attempts", resolve.attempts),
        ("--silence", SILENCE),
    ]
    if not shard.is_whole:
        options.append(("--shards", shard.of))
    if resolve.rate is not None:
        options.append(("--rate", resolve.rate))
    elif not (resolve.resolver or resolve.resolvers):
        # The engine gets the one of /etc/resolv.conf by name, and would take a stub for one's own.
        options.append(("--rate", RESOLVER_RATE))
    options += [("--resolver", resolver) for resolver in configured_resolvers(resolve)]
    options += [("--blocklist", path) for path in settings.probe.blocklist]
    options += [("--optout", path) for path in settings.probe.optout]
    resume = ["--resume"] * begun(folder / "segments")
    return process.argument_list("firstflight-resolve", options, *resume)


def run(run: Run, shard: Shard, folder: Path, watch: Callable[[], None]) -> None:
    """Resolve the names of names.txt, those of `shard`, until every one has rows in a closed segment.

    Calls `watch` and raises as `process.run`; also ResolverDown, if no resolver answers.
    """
    summary = folder / "summary.json"
    summary.unlink(missing_ok=True)

    def look() -> None:
        run.check_not_stopped()
        watch()

    try:
        argv = arguments(run.settings, folder, shard)
        # It waits for no answer when it is stopped.
        process.run(argv, folder / "resolve.log", Feed(), look, ENGINE, longest_s=0.0)
    except process.EngineFailed as error:
        if _is_down(summary):
            reason = str(error).removeprefix(f"the {ENGINE.name} failed: firstflight resolve: ")
            raise ResolverDown(reason) from None
        raise


def _is_down(summary: Path) -> bool:
    try:
        return bool(files.read_json(summary)["resolvers_down"])
    except (FirstflightError, KeyError, TypeError):
        return False
