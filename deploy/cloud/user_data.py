"""Prints user data for cloud-init. It prepares a new machine for the playbook.

    python deploy/cloud/user_data.py --key ~/.ssh/id_ed25519.pub [--key ...] [--user deploy]

The machine gets an account with these keys and sudo, Python for Ansible, time synchronization and security
updates. SSH accepts neither passwords nor root. No cloud has run it yet (README.md).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import yaml

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# Type, base64, comment: no options, and only the types that SSH still accepts.
_KEY = re.compile(
    r"(ssh-ed25519|ecdsa-sha2-nistp(256|384|521)|ssh-rsa|sk-ssh-ed25519@openssh\.com) "
    r"[A-Za-z0-9+/]{40,}={0,2}( [ -~]*)?"
)
_SSHD = """\
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
"""


class WrongUse(Exception):
    """The message says in one sentence what is wrong."""


def user_data(user: str, keys: list[str]) -> dict[str, Any]:
    """Return the user data; WrongUse if the account's name or a key is invalid."""
    if not _USER.fullmatch(user) or user == "root":
        raise WrongUse(f"{user!r} is no name of an account for the playbook")
    for key in keys:
        if not _KEY.fullmatch(key):
            raise WrongUse(f"{key[:40]!r} is no public key of SSH: name the file that ends with .pub")
    return {
        "users": [
            {
                "name": user,
                "gecos": "firstflight, by the playbook",
                "shell": "/bin/bash",
                "lock_passwd": True,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": keys,
            }
        ],
        "disable_root": True,
        "ssh_pwauth": False,
        "package_update": True,
        "package_upgrade": True,
        "package_reboot_if_required": True,
        "packages": ["python3", "python3-venv", "chrony", "unattended-upgrades"],
        "write_files": [
            {
                "path": "/etc/ssh/sshd_config.d/10-firstflight.conf",
                "permissions": "0644",
                "content": _SSHD,
            }
        ],
        "runcmd": [["systemctl", "reload", "ssh"]],
    }


def text(user: str, key_files: list[Path]) -> str:
    """Return the user data for cloud-init; OSError or WrongUse for an unreadable file or an invalid key."""
    keys = []
    for path in key_files:
        try:
            keys.append(path.expanduser().read_text(encoding="utf-8").strip())
        except UnicodeDecodeError as error:
            raise WrongUse(f"{path} is no text: name the file that ends with .pub") from error
    return "#cloud-config\n" + yaml.safe_dump(user_data(user, keys), sort_keys=False)


def main() -> int:
    """Print the user data; status 2 and one sentence for wrong use."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--key", type=Path, action="append", required=True, metavar="FILE")
    parser.add_argument("--user", default="deploy", metavar="NAME")
    options = parser.parse_args()
    try:
        content = text(options.user, options.key)
    except (OSError, WrongUse) as error:
        sys.stderr.write(f"user_data: {error}\n")
        return 2
    sys.stdout.write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
