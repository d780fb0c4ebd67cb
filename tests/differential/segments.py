"""TCP segments: tshark's fields, and rows of tcp_packet converted to the same form."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.differential.compare import fields
from tests.differential.oracle import Fields
from tests.dissect.conftest import Row

FLAGS = ("cwr", "ece", "urg", "ack", "psh", "rst", "syn", "fin")
CLASSES = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
KINDS = {"end": 0, "nop": 1, "mss": 2, "wscale": 3, "sack_permitted": 4, "sack": 5, "timestamps": 8}
SIZES = {"end": 1, "nop": 1, "mss": 4, "wscale": 3, "sack_permitted": 2, "timestamps": 10}
AGGREGATOR = ";"


def segments(capture: Path) -> Iterator[Fields]:
    """Yield the listed fields of every frame of `capture` in which tshark finds TCP, in two passes."""
    names = sorted({name for field in fields("tcp") for name in field.tshark})
    argv = ["tshark", "-2", "-r", str(capture), "-Y", "tcp && !icmp && !icmpv6", "-T", "fields"]
    argv += ["-o", "tcp.relative_sequence_numbers:FALSE", "-E", f"aggregator={AGGREGATOR}"]
    for name in names:
        argv += ["-e", name]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    for line in done.stdout.splitlines():
        cells = zip(names, line.split("\t"), strict=True)
        yield {name: cell.split(AGGREGATOR) for name, cell in cells if cell}


def in_words_of_tshark(row: Row) -> Row:
    """Return a row of tcp_packet with a value for each listed field."""
    found = dict(row)
    is_six = ":" in row["src_ip"]
    found["ip_version"] = 6 if is_six else 4
    # IPv6 counts the bytes after its header.
    found["ip_length"] = row["ip_bytes"] - 40 if is_six else row["ip_bytes"]
    flags = row["flags"].split(",")
    found |= {f"flag_{name}": int(name in flags) for name in FLAGS}
    found["window_bytes"] = row["window"] << (row["window_shift"] or 0)
    found |= _options(row["options"], row["header_bytes"] - 20)
    names = {*filter(None, row["marks"].split(",")), row["class"]}
    # In addition to these two classes, tshark reports the more general class.
    if names & {"fast_retransmission", "spurious_retransmission"}:
        names.add("retransmission")
    found |= {f"is_{name}": 1 for name in names if name is not None}
    return found


def _options(text: str, size: int) -> Row:
    found: dict[str, list[int]] = {name: [] for name in ("kinds", "left", "right", "tsval", "tsecr")}
    found |= {name: [] for name in ("mss", "wscale", "blocks")}
    for option in filter(None, text.split("; ")):
        name, *words = option.split(" ")
        if name == "kind":
            found["kinds"].append(int(words[0]))
            size -= 2 + len(words[1]) // 2
            continue
        found["kinds"].append(KINDS[name])
        size -= SIZES.get(name, 0)
        if name in ("mss", "wscale"):
            found[name].append(int(words[0]))
        elif name == "timestamps":
            found["tsval"].append(int(words[0]))
            found["tsecr"].append(int(words[1]))
        elif name == "sack":
            edges = [block.split("-") for block in words[0].split(",")]
            found["left"] += [int(left) for left, _ in edges]
            found["right"] += [int(right) for _, right in edges]
            found["blocks"].append(len(edges))
            size -= 2 + 8 * len(edges)
        elif name == "end":
            # End of the list; tshark shows each byte of padding as another end.
            found["kinds"] += [0] * size
    return found
