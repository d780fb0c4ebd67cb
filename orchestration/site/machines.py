"""The machines of a site, as vantage_points.toml names them for the playbook (deploy/ansible)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from firstflight import settings

# A name or address; never an option of ssh.
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$")]
ContactUrl = Annotated[
    str, Field(pattern=r"^https?://[!#$%&'()*+,./0-9:;=?@A-Z_a-z~\[\]-]+$", max_length=500)
]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,63}$")]


class Machine(settings.Section):
    """The centre, or the machine of the store or the dashboard where it is another one."""

    ssh_host: Host
    # The name or address by which other machines and people reach it [ssh_host]; its certificate names it.
    address: Host | None = None

    @property
    def reached_at(self) -> str:
        """The name or address by which other machines reach it."""
        return self.address or self.ssh_host
