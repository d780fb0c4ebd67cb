"""HTTP/0.9 between stacks. tests/testbed/guests has pairs with programs of `make testbed-setup`."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.trials import block, trial_row, unavailable
from tests.testbed import http09

HQ = "hq-interop"


@pytest.mark.parametrize("client", ["aioquic", "go-x-net", "quic-go", "quiche"])
def test_a_client_downloads_by_http09(tmp_path: Path, client: str) -> None:
    http09.downloads(tmp_path, client, "aioquic")


def test_the_manifests_name_the_stacks_that_support_it() -> None:
    clients = {"aioquic", "go-x-net", "picoquic", "quic-go", "quiche"}
    assert set(http09.pairs()) == {
        (client, server) for client in clients for server in ("aioquic", "picoquic", "quic-go")
    }


def test_a_cell_names_the_protocol() -> None:
    """By default it is the client's first one, and neither the cell's name nor its seed contains it."""
    plain = Cell(client="quic-go", server="aioquic", answering="iack")
    asked = plain.model_copy(update={"alpn": HQ})
    assert (plain.name, asked.name) == ("quic-go-aioquic-iack-9ms", f"quic-go-aioquic-iack-9ms-{HQ}")
    jobs = [block.job(block.TrialBlock("x", cell, 1, 1)) for cell in (plain, asked)]
    assert [(job["alpn"], job["http"]) for job in jobs] == [("h3", "3"), (HQ, "0.9")]
    assert "alpn" not in block.seed_text(plain) and HQ in block.seed_text(asked)
    xnet = plain.model_copy(update={"client": "go-x-net"})
    assert [trial_row.conditions(cell)["alpn"] for cell in (plain, asked, xnet)] == ["h3", HQ, HQ]


@pytest.mark.parametrize(
    ("client", "server", "alpn", "why"),
    [
        ("quic-go", "quic-go", HQ, None),
        ("quinn", "quic-go", HQ, f"the client quinn does not support {HQ}"),
        ("quic-go", "quiche", HQ, f"the server quiche does not support {HQ}"),
        (
            "go-x-net",
            "quiche",
            None,
            f"the server quiche does not support {HQ}, the only protocol of the client",
        ),
        ("go-x-net", "quic-go", "h3", "the client go-x-net does not support h3"),
    ],
)
def test_a_pair_without_the_protocol_is_unavailable(
    client: str, server: str, alpn: str | None, why: str | None
) -> None:
    given = {"client": client, "server": server, "answering": "iack", "alpn": alpn}
    assert unavailable.why(Cell.model_validate(given)) == why


def test_a_stack_has_a_protocol() -> None:
    with pytest.raises(ValueError, match="alpn"):
        stacks.StackFile.model_validate({"server": "aioquic", "alpn": []})
