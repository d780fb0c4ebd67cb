"""Runs `firstflight-resolve` for the resolve stage: its list of names, its arguments, its failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from firstflight.errors import InputError, UsageError
from firstflight.run.resolvers import engine_options, is_down
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.shard import WHOLE, Shard
from firstflight.system import files
from scanner.driver import process
from scanner.driver.arguments import Options, argument_list
from scanner.driver.feed import Feed
from scanner.driver.segments import has_segments, resume_flag

ENGINE = process.EngineTexts("resolver", "finished results are kept, and the stage continues there")
# Number of unanswered queries in a row after which the engine checks whether the resolver answers at all.
SILENCE = 50


class ResolverDown(InputError):
    """No resolver answers (exit 3); earlier answers are kept."""


def write_names(names: Iterable[list[str]], folder: Path) -> None:
    """Write names.txt with one name per line. Segments refer to its line numbers.

    Raise UsageError if segments exist and the list has changed.
    """
    path = folder / "names.txt"
    with files.replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            for batch in names:
                file.writelines(f"{name}\n" for name in batch)
        is_unchanged = path.is_file() and files.sha256_of(path) == files.sha256_of(temporary)
        if has_segments(folder / "segments") and not is_unchanged:
            raise UsageError(
                f"{path} no longer matches the target list, and some of it has been resolved: "
                "run the resolve stage with --again"
            )


def arguments(settings: Settings, folder: Path, shard: Shard = WHOLE) -> list[str]:
    """Return the command line of `firstflight-resolve`, with the files in `folder`.

    A shard has its share of the rate, including the engine's default rate, and of the concurrent queries.
    """
    resolve = settings.resolve
    options: Options = [
        ("--names", folder / "names.txt"),
        ("--segments", folder / "segments"),
        ("--summary", folder / "summary.json"),
        ("--progress", folder / process.STATE),
        ("--concurrency", max(1, resolve.concurrency // shard.count)),
        ("--silence", SILENCE),
    ]
    if not shard.is_whole:
        options.append(("--shards", shard.count))
    options += engine_options(settings)
    return argument_list("firstflight-resolve", options, *resume_flag(folder / "segments"))


def run(run: Run, shard: Shard, folder: Path, watch: Callable[[], None]) -> None:
    """Resolve the names in names.txt until each name has rows in a closed segment.

    Calls `watch` and raises like `process.run`. Also raise ResolverDown if no resolver answers.
    """
    summary = folder / "summary.json"
    summary.unlink(missing_ok=True)

    def look() -> None:
        run.check_not_stopped()
        watch()

    try:
        argv = arguments(run.settings, folder, shard)
        # A stopped engine does not wait for answers.
        process.run(argv, folder / "resolve.log", Feed(), look, ENGINE, longest_s=0.0)
    except process.EngineFailed as error:
        if is_down(summary):
            reason = str(error).removeprefix(f"the {ENGINE.name} failed: firstflight resolve: ")
            raise ResolverDown(reason) from None
        raise
