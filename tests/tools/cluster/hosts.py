"""Hosts on this machine: each a network, host name, mount table and process table of its own.

A switch joins them. A host ends with all its processes when it is closed, or when this program ends.
"""

import os
import shutil
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

NETWORK = "10.78.0"
PROGRAMS = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}  # and their packages


def find_lacks(programs: dict[str, str]) -> list[str]:
    """Return what this machine lacks for hosts that run `programs`, a line each: packages and rights."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    lacks = [
        f"the program {name}: apt-get install --no-install-recommends {package}"
        for name, package in (PROGRAMS | programs).items()
        if not shutil.which(name, path=path)
    ]
    if not lacks:
        attempt = ["unshare", *SPACES, "ip", "link", "add", "name", "port", "type", "bridge"]
        tried = subprocess.run(attempt, capture_output=True, text=True)
        if tried.returncode:
            words = tried.stderr.strip().splitlines()[-1]
            lacks = [f"the right to make network namespaces (CAP_SYS_ADMIN: be root): {words}"]
    return lacks


SPACES = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Host(AbstractContextManager["Host"]):
    """A host with a name and the address NETWORK.number; its switch is a host too."""

    def __init__(
        self, name: str, number: int, hosts_file: Path, switch: "Host | None" = None
    ) -> None:
        self.name, self.address, self._port = name, f"{NETWORK}.{number}", f"port{number}"
        self._switch = switch
        boot = f"hostname {name}; mount --bind {hosts_file} /etc/hosts; ip link set lo up; echo up; cat"
        self._first = subprocess.Popen(
            ["unshare", *SPACES, "bash", "-c", boot], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._first.stdout and self._first.stdout.readline() == b"up\n"
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        self._pid = children.read_text().split()[0]
        device = "eth0" if switch else "bridge"
        if switch:
            switch.ip(f"link add name {self._port} type veth peer name eth0 netns {self._pid}")
            switch.ip(f"link set {self._port} master bridge up")
        else:
            self.ip("link add name bridge type bridge")
        self.ip(f"address add {self.address}/24 dev {device}")
        self.ip(f"link set {device} up")

    def __exit__(self, *_: object) -> None:
        self._first.kill()  # the first process of its table, and so all
        self._first.communicate()

    def ip(self, words: str) -> None:
        """Run `ip` in its network, where the numbers of processes are those outside."""
        enter = ["nsenter", "--target", self._pid, "--net", "ip", *words.split()]
        subprocess.run(enter, check=True)

    def command(self, *words: str | Path) -> list[str]:
        """Return the words that run a command on this host, in the folder that is current here."""
        spaces = ["--net", "--uts", "--mount", "--pid", f"--wd={os.getcwd()}"]
        return ["nsenter", "--target", self._pid, *spaces, "--", *map(str, words)]

    def link(self, state: str) -> None:
        """Set the link between this host and the switch "up" or "down"."""
        assert self._switch
        self._switch.ip(f"link set {self._port} {state}")
