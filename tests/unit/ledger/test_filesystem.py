"""Which file systems a ledger is refused on."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import LedgerError
from headrace.ledger.filesystem import refuse_network

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/export /mnt/share nfs4 rw,vers=4.2 0 0
/dev/vdb /mnt/share/local xfs rw 0 0
//nas/team\\040data /mnt/team\\040data cifs rw 0 0
user@host:/ /home/me/remote fuse.sshfs rw 0 0
systemd-1 /auto autofs rw 0 0
server:/auto /auto nfs rw 0 0
C:\\134 /mnt/c 9p rw 0 0
server:/old /data nfs rw 0 0
/dev/vdc /data ext4 rw 0 0
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/mnt/share/runs", "nfs4"), ("/mnt/share", "nfs4"), ("/mnt/team data/a/b", "cifs"),
        ("/home/me/remote/x", "fuse.sshfs"), ("/auto/x", "nfs"), ("/mnt/c/Users", "9p"),
    ],
)  # fmt: skip
def test_a_network_file_system_is_refused_with_a_way_out(folder: str, kind: str) -> None:
    with pytest.raises(LedgerError, match="--run-dir") as caught:
        refuse_network(Path(folder), MOUNTS)
    assert f"({kind})" in str(caught.value)
    assert folder in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("folder", ["/", "/home/me", "/mnt/shared", "/mnt/share/local/runs", "/mnt/team", "/data/x"])
def test_a_local_one_is_not(folder: str) -> None:
    refuse_network(Path(folder), MOUNTS)


def test_where_there_is_no_list_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_text(path: Path, **_: object) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", read_text)
    refuse_network(Path("/mnt/share"))


def test_this_machine_s_own_list_can_be_read(tmp_path: Path) -> None:
    refuse_network(Path("/proc"))
