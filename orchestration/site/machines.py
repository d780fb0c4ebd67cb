"""A site's machines, as vantage_points.toml names them for the playbook (deploy/ansible)."""

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


class SiteMachine(settings.Section):
    """A machine in a site: the centre, or a separate machine for the store or the dashboard."""

    ssh_host: Host
    # The name or address for other machines and for users [ssh_host]; the certificate contains it.
    address: Host | None = None

    @property
    def reached_at(self) -> str:
        """The name or address for other machines."""
        return self.address or self.ssh_host
