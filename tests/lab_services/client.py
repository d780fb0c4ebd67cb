"""A client of the lab's services that uses the usual libraries, and prints JSON.

client.py dns SERVER                    questions as JSON on standard input: [[name, type], ...]
client.py tranco CACHE JSON...          one list per JSON of keyword arguments of Tranco.list
client.py fetch URL FILE                downloads; {"status": ..., "error": ...}
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import requests
from tranco import Tranco


def ask(server: str, name: str, kind: str) -> dict[str, Any]:
    """Send one query over UDP; return status, seconds, and the answer section as [owner, ttl, type, data]."""
    start = time.monotonic()
    answer = dns.query.udp(dns.message.make_query(name, kind), server, timeout=60)
    rows = [
        [
            rrset.name.to_text(omit_final_dot=True),
            rrset.ttl,
            dns.rdatatype.to_text(rrset.rdtype),
            data.to_text(),
        ]
        for rrset in answer.answer
        for data in rrset
    ]
    return {"status": dns.rcode.to_text(answer.rcode()), "seconds": time.monotonic() - start, "answer": rows}


def tranco_list(cache: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a list from the package `tranco`, with metadata."""
    package = Tranco(cache_dir=cache)
    try:
        found = package.list(**wanted)
    except AttributeError as error:
        return {"error": str(error)}
    return {"id": found.list_id, "names": found.top(), "metadata": package.list_metadata(found.list_id)}


def fetch(url: str, file: str) -> dict[str, Any]:
    """Download a URL."""
    try:
        response = requests.get(url, timeout=60)
    except requests.exceptions.RequestException as error:
        return {"status": None, "error": type(error).__name__}
    Path(file).write_bytes(response.content)
    return {"status": response.status_code, "error": None}


def main() -> None:
    """Run the command; see the module's docstring."""
    service, first, *more = sys.argv[1:]
    result: Any
    if service == "dns":
        result = [ask(first, name, kind) for name, kind in json.load(sys.stdin)]
    elif service == "tranco":
        result = [tranco_list(first, json.loads(text)) for text in more]
    else:
        result = fetch(first, *more)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
