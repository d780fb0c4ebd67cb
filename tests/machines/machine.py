"""Machines for tests: systemd as process 1 (systemd-nspawn) on an overlay of `/`, reached over SSH.

A machine has the host's installed packages. Homes, the checkout, /opt, databases and settings for a site are
hidden. Its network is a namespace that the caller provides, with an additional interface `mgmt0` on a bridge
in the caller's namespace for SSH. Requires root.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import until

TREE = Path(__file__).resolve().parents[2]
BRIDGE = "mgmt"
MARK = "firstflight-lab"  # docs/interfaces.md
NETWORK = "198.19.0"
HIDDEN = (
    *("root", "home", "opt", "tmp", "usr/local", "var/tmp", "var/www"),
    *("etc/firstflight", "var/lib/firstflight", "etc/postgresql", "var/lib/postgresql", "etc/nginx/conf.d"),
)
# Services of the host's packages that a bare machine would not run.
MASKED = (
    *(
        "bird.service",
        "named.service",
        "networking.service",
        "cloud-init.target",
        "systemd-timesyncd.service",
    ),
    *(
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "man-db.timer",
        "e2scrub_all.timer",
        "e2scrub_reap.service",
    ),
)
NSPAWN = (
    *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"),
    *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--kill-signal=SIGRTMIN+3"),
    # The store confines itself.
    "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
)


@dataclass
class Key:
    """A key pair for SSH, and the file of known hosts."""

    folder: Path

    @property
    def private(self) -> Path:
        """The private key."""
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        """The machines' keys."""
        return self.folder / "known_hosts"

    def make(self) -> None:
        """Make the pair."""
        self.folder.mkdir(parents=True, exist_ok=True)
        keygen(self.private)

    def options(self) -> list[str]:
        """Return the options of ssh."""
        return [
            *("-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "StrictHostKeyChecking=yes"),
            *("-o", "ConnectTimeout=20", "-o", "BatchMode=yes"),
        ]


@dataclass
class Machine:
    """One machine; `number` is the last octet of the address on the bridge."""

    name: str
    number: int
    disk: Path
    network: Path  # a network namespace
    resolver: str
    key: Key
    process: subprocess.Popen[bytes] | None = None
    groups: list[Path] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address for SSH."""
        return f"{NETWORK}.{self.number}"

    @property
    def hostname(self) -> str:
        """Its host name, which has no underscore."""
        return self.name.replace("_", "-")

    @property
    def root(self) -> Path:
        """Its file system, seen from here."""
        return self.disk / self.name / "root"

    @property
    def console(self) -> Path:
        """The output of process 1."""
        return self.disk / self.name / "console"

    def boot(self) -> None:
        """Make its file system, start it, and wait until SSH answers."""
        self._make()
        self.start()

    def start(self) -> None:
        """Start it on its existing file system."""
        drawn = secrets.token_hex(4)
        self.groups = [make_group(f"firstflight-{self.hostname}-{drawn}", line) for line in hierarchies()]
        enter = "".join(f'echo $$ >"{group}/cgroup.procs" && ' for group in self.groups)
        command = [*NSPAWN, f"--machine={self.hostname}", f"--directory={self.root}"]
        command.append(f"--network-namespace-path={self.network}")
        with self.console.open("wb") as console:
            self.process = subprocess.Popen(
                ["sh", "-c", f'{enter}exec "$@"', "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        leader = until(self._leader, lambda: f"{self.name} does not boot: {self.console.read_text()}")
        assert leader
        # nspawn shows a boot ID that is not the kernel's, except to services with their own /proc. Process 1
        # may have the file open.
        boot_id = "/proc/sys/kernel/random/boot_id"
        run("nsenter", f"--target={leader}", "--mount", "--pid", "umount", "--lazy", boot_id)
        self._connect(leader)
        until(self._answers, lambda: f"{self.name} does not answer: {self.ssh('true').stderr}")

    def stop(self) -> None:
        """Shut it down, and remove everything except its disk."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        for group in self.groups:
            for folder in sorted(group.rglob("*"), reverse=True):
                if folder.is_dir():
                    with suppress(OSError):
                        folder.rmdir()
            with suppress(OSError):
                group.rmdir()

    def ssh(self, command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root."""
        argv = ["ssh", "-i", str(self.key.private), *self.key.options(), f"root@{self.address}", command]
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
        )

    def done(self, command: str, timeout: float = 120) -> str:
        """Run a shell command as root; return its standard output. The command must succeed."""
        done = self.ssh(command, timeout)
        assert done.returncode == 0, f"{self.name}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def state(self, unit: str, what: str = "ActiveState") -> str:
        """Return a unit's property."""
        return self.done(f"systemctl show --property={what} --value {unit}").strip()

    def _make(self) -> None:
        upper = self.disk / self.name / "upper"
        for folder in (upper, self.root, self.disk / self.name / "work"):
            folder.mkdir(parents=True)
        for name in (*HIDDEN, str(TREE)[1:]):
            hide(upper, name)
        (upper / "usr/local/sbin").mkdir()
        write(upper / "etc/machine-id", "")
        write(upper / "etc/hostname", self.hostname + "\n")
        write(upper / "etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {self.hostname}\n::1 localhost\n")
        write(upper / "etc/resolv.conf", f"nameserver {self.resolver}\n")
        for unit in MASKED:
            link = upper / "etc/systemd/system" / unit
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/dev/null")
        # setup.sh installs the SSH server but disables its start.
        enabled = upper / "etc/systemd/system/multi-user.target.wants/ssh.service"
        enabled.parent.mkdir()
        enabled.symlink_to("/lib/systemd/system/ssh.service")
        authorized = upper / "root/.ssh/authorized_keys"
        write(authorized, self.key.private.with_suffix(".pub").read_text())
        (upper / "root").chmod(0o700)
        hide(upper, "etc/ssh")
        shutil.copyfile("/etc/ssh/sshd_config", upper / "etc/ssh/sshd_config")
        keygen(upper / "etc/ssh/ssh_host_ed25519_key")
        public = (upper / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        with self.key.known_hosts.open("a") as known:
            known.write(f"{self.address} {public[0]} {public[1]}\n")
        layers = f"lowerdir=/,upperdir={upper},workdir={self.disk / self.name / 'work'}"
        run("mount", "-t", "overlay", "overlay", "-o", layers, str(self.root))

    def _leader(self) -> int | None:
        """Return its process 1, if it is in the machine's namespace."""
        assert self.process is not None
        assert self.process.poll() is None, self.console.read_text()
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text().split():
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                    return int(pid)
        return None

    def _connect(self, leader: int) -> None:
        """Connect it with the bridge."""
        outer = f"m{self.number}"
        inner = ("nsenter", f"--net={self.network}", "ip")
        with suppress(subprocess.CalledProcessError):
            run("ip", "link", "del", outer)
        run("ip", "link", "add", outer, "type", "veth", "peer", "name", "mgmt0", "netns", str(leader))
        run("ip", "link", "set", outer, "master", BRIDGE, "up")
        run(*inner, "address", "add", f"{self.address}/24", "dev", "mgmt0")
        run(*inner, "link", "set", "mgmt0", "up")

    def _answers(self) -> bool:
        try:
            return self.ssh("true", 10).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def make_bridge() -> None:
    """Make the bridge in this network namespace, which must have no route to other networks."""
    run("ip", "link", "set", "lo", "alias", MARK)
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def hide(upper: Path, name: str) -> None:
    """Make a folder of `/` appear empty in the overlay."""
    folder = upper / name
    for parent in [*reversed(folder.relative_to(upper).parents), folder.relative_to(upper)]:
        if not (upper / parent).exists():
            (upper / parent).mkdir()
            with suppress(FileNotFoundError):
                shutil.copystat(Path("/") / parent, upper / parent)
                status = (Path("/") / parent).stat()
                os.chown(upper / parent, status.st_uid, status.st_gid)
    os.setxattr(folder, "trusted.overlay.opaque", b"y")


def write(path: Path, text: str) -> None:
    """Write a file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def keygen(path: Path) -> None:
    """Make a key pair for SSH."""
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path))


def hierarchies() -> list[Path]:
    """Return the path of this process in each cgroup hierarchy that systemd uses for itself."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "name=systemd":
            found.append(Path("/sys/fs/cgroup/systemd" + path))
        elif not controllers:
            unified = Path("/sys/fs/cgroup/unified")
            found.append(Path(f"{unified if unified.is_dir() else '/sys/fs/cgroup'}{path}"))
    return found


def make_group(name: str, where: Path) -> Path:
    """Make a cgroup below `where`. Two machines in the same cgroup would stop each other."""
    group = where / name
    group.mkdir(exist_ok=True)
    return group


def run(*argv: str) -> str:
    """Run a command that must succeed; return its output."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, argv, done.stdout, done.stderr)
        error.add_note(done.stderr)
        raise error
    return done.stdout


def kill(pid: int) -> None:
    """Send SIGKILL to a process."""
    os.kill(pid, signal.SIGKILL)
