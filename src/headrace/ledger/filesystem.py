"""Which file system a folder is on: the ledger's write-ahead log needs shared memory, which network ones lack."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.errors import LedgerError

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "fuse.sshfs",
     "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.mount-s3", "davfs", "fuse.davfs2", "fuse.juicefs",
     "fuse.ceph-fuse", "fuse.blobfuse", "fuse.blobfuse2", "fuse.goofys"}
)  # fmt: skip
_ESCAPE = re.compile(r"\\([0-7]{3})")


def refuse_network(folder: Path, mounts: str | None = None) -> None:
    """Raises LedgerError where `folder` stands on a network file system. `mounts`: the text of /proc/self/mounts.

    Where the kernel keeps no such list nothing is refused here; SQLite then says so when the log cannot be opened.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
    best, kind = -1, ""
    path = folder.resolve()
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) < 3:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), parts[1]))
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), parts[2]
    if kind in NETWORK:
        raise LedgerError(
            f"{folder} is on a network file system ({kind}), where a ledger cannot be kept safely; "
            "give a local folder with --run-dir."
        )
