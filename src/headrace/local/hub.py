"""Fetching a model file from its hub into the hub's cache on this machine: checked, resumable, whole or not there."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Struct

from headrace.errors import DiskError, FetchError, SpecError
from headrace.local.gguf import SPLIT
from headrace.local.hubcache import cache_folder, repo_folder

# Small models under Apache-2.0 that follow an instruction, by the name that `headrace local pull` takes.
KNOWN = {
    "qwen2.5-1.5b": ("Qwen/Qwen2.5-1.5B-Instruct-GGUF", "qwen2.5-1.5b-instruct-q4_k_m.gguf"),
    "qwen2.5-0.5b": ("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen2.5-0.5b-instruct-q4_k_m.gguf"),
    "smollm2-360m": ("HuggingFaceTB/SmolLM2-360M-Instruct-GGUF", "smollm2-360m-instruct-q8_0.gguf"),
}
DEFAULT = "qwen2.5-1.5b"
_PREFERRED = ("q4_k_m", "q8_0")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SILENCE_S = 30.0
_REDIRECTS = 5
_TRIES_WITHOUT_PROGRESS = 3
_PART = 2**20
_LONGEST_LISTING = 32 * 2**20

Progress = Callable[[int, int], None]


class HubFile(Struct, frozen=True):
    """One file of a revision, as the hub describes it."""

    repo: str
    commit: str
    path: str
    size: int
    sha256: str


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


class Hub:
    """One hub, with the caller's token. HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are honoured.

    The token is sent to the hub's own host alone, and shown nowhere.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._base = (environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        if not _is_address(self._base):
            raise SpecError("HF_ENDPOINT is no http(s):// address", key="HF_ENDPOINT")
        self._token = (environ.get("HF_TOKEN") or "").strip()
        if not self._token.isascii() or not (self._token.isprintable() or not self._token):
            raise SpecError("HF_TOKEN holds a character that no HTTP header can carry", key="HF_TOKEN")
        if (environ.get("HF_HUB_OFFLINE") or "0").lower() not in {"", "0", "false", "no", "off"}:
            raise SpecError("HF_HUB_OFFLINE is set: nothing is fetched", key="HF_HUB_OFFLINE")
        self._opener = urllib.request.build_opener(_NoRedirects)

    @property
    def name(self) -> str:
        """The hub's host, for people."""
        return urlsplit(self._base).netloc.rpartition("@")[2]

    def __repr__(self) -> str:
        return f"Hub({self.name!r})"

    def describe(self, repo: str, file: str | None) -> HubFile:
        """The file to fetch: `file`, or by quantisation the one that small machines run best. Raises SpecError, FetchError."""
        if not _REPO.fullmatch(repo):
            raise SpecError(f"found {repo[:80]!a}; a model is owner/name on the hub, or one of {', '.join(KNOWN)}", key="MODEL")
        with self._get(f"{self._base}/api/models/{quote(repo)}/revision/main?blobs=true", {}) as reply:
            if reply.status != 200:
                raise self._refusal(reply.status, repo)
            try:
                listing = json.loads(reply.read(_LONGEST_LISTING))
                files = [found for entry in listing["siblings"] if (found := _file(repo, listing["sha"], entry)) is not None]
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise FetchError(f"{self.name}: what it says of {repo} is no listing of files") from None
            except (OSError, HTTPException) as error:
                raise self._lost(error) from None
        return _chosen(files, repo, file)

    def read_from(self, file: HubFile, start: int) -> HTTPResponse:
        """The file's bytes from `start` on (206), or from the beginning (200), if the server will not. Raises FetchError."""
        url = f"{self._base}/{quote(file.repo)}/resolve/{file.commit}/{quote(file.path)}"
        reply = self._get(url, {"Range": f"bytes={start}-"} if start else {})
        if reply.status in {200, 206}:
            return reply
        status = reply.status
        reply.close()
        raise self._refusal(status, file.repo)

    def _get(self, url: str, headers: Mapping[str, str]) -> HTTPResponse:
        """GET, following redirects by hand: the token stays with the hub's own host."""
        home = _origin(url)
        for _ in range(_REDIRECTS):
            request = urllib.request.Request(url, headers={"User-Agent": "headrace", "Accept-Encoding": "identity", **headers})  # noqa: S310 (http or https, checked)
            if self._token and _origin(url) == home:
                request.add_header("Authorization", f"Bearer {self._token}")
            try:
                reply: HTTPResponse = self._opener.open(request, timeout=_SILENCE_S)
            except urllib.error.HTTPError as error:
                reply = error  # type: ignore[assignment]  # it is a reply too: status, headers, read and close
            except (OSError, HTTPException) as error:
                raise self._lost(error) from None
            if reply.status not in {301, 302, 303, 307, 308}:
                return reply
            reply.close()
            try:
                there = urljoin(url, reply.headers.get("Location") or "")
                scheme = urlsplit(there).scheme
            except ValueError:
                raise FetchError(f"{self.name}: it redirects to what is no address") from None
            if scheme not in {"https", urlsplit(url).scheme}:
                raise FetchError(f"{self.name}: it redirects to an address that is not https")
            url = there
        raise FetchError(f"{self.name}: more than {_REDIRECTS} redirects")

    def _refusal(self, status: int, repo: str) -> FetchError:
        if status in {401, 403}:
            hint = "the token in HF_TOKEN may not read it" if self._token else "it may need a token in HF_TOKEN, or not exist"
            return FetchError(f"{self.name}: HTTP {status} for {repo}: {hint}")
        return FetchError(f"{self.name}: HTTP {status} for {repo}" + (": no such model or file" if status == 404 else ""))

    def _lost(self, error: Exception) -> FetchError:
        reason = getattr(error, "reason", None) or error
        words = str(getattr(reason, "strerror", None) or reason or type(reason).__name__)
        return FetchError(f"{self.name}: {words[:200]}; the same command goes on where it stopped")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect comes back as it is: the library's own way reads its address before it asks whether to follow."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> None:  # noqa: ARG002 - the library's
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def resolve_name(what: str | None, file: str | None) -> tuple[str, str | None]:
    """Repository and file of a name from `KNOWN`, or of `owner/name`."""
    repo, known = KNOWN.get((what or DEFAULT).lower(), (what or DEFAULT, None))
    return repo, file or known


def pull(hub: Hub, file: HubFile, environ: Mapping[str, str], progress: Progress) -> Path:
    """Fetch the file into the hub's cache, and return its path there. What is there already is not fetched again.

    What came before an interruption is kept and gone on with. The file appears under its name only when size and sha256
    are what the hub said. `progress` is told (bytes so far, bytes in all). Raises FetchError, DiskError, SpecError.
    """
    cache = cache_folder(environ)
    if cache is None:
        raise SpecError("there is no home folder for the hub's cache; set HF_HUB_CACHE", key="HF_HUB_CACHE")
    folder = repo_folder(cache, file.repo)
    blob = folder / "blobs" / file.sha256
    try:
        blob.parent.mkdir(parents=True, exist_ok=True)
        if not blob.exists() or blob.stat().st_size != file.size:
            _fetch(hub, file, blob, progress)
        return _placed(folder, blob, file)
    except OSError as error:
        raise DiskError(f"{folder}: {error.strerror or error}; the same command goes on where it stopped") from None


def _fetch(hub: Hub, file: HubFile, blob: Path, progress: Progress) -> None:
    incomplete = blob.with_name(f"{blob.name}.incomplete")
    with incomplete.open("ab+") as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FetchError(f"{file.path}: another process is fetching it") from None
        digest = _continue(hub, file, out, progress)
        if digest != file.sha256:
            out.truncate(0)
            raise FetchError(f"{file.path}: what came is not what {hub.name} described (sha256 differs); run it again")
        out.flush()
        os.fsync(out.fileno())
        incomplete.replace(blob)


def _continue(hub: Hub, file: HubFile, out: IO[bytes], progress: Progress) -> str:
    """Append what is missing, over as many connections as it takes while each brings something. Returns the sha256."""
    idle = 0
    digest, at = _hash_so_far(out, file.size)
    furthest = at
    while at < file.size:
        try:
            with hub.read_from(file, at) as reply:
                if reply.status == 200 and at:
                    out.truncate(0)
                    digest, at = hashlib.sha256(), 0
                while at < file.size and (part := _part(reply, file.size - at)):
                    out.write(part)
                    digest.update(part)
                    at += len(part)
                    progress(at, file.size)
                lost = FetchError(f"{hub.name}: the connection ended early; the same command goes on where it stopped")
        except ConnectionError:
            lost = FetchError(f"{hub.name}: the connection was lost; the same command goes on where it stopped")
        finally:
            out.flush()
        idle = 0 if at > furthest else idle + 1  # a hub that begins anew each time brings nothing
        furthest = max(furthest, at)
        if at < file.size and idle >= _TRIES_WITHOUT_PROGRESS:
            raise lost
    return str(digest.hexdigest())


def _part(reply: HTTPResponse, wanted: int) -> bytes:
    """Some bytes more. Raises ConnectionError, whatever became of the connection."""
    try:
        return reply.read(min(_PART, wanted))
    except (OSError, HTTPException) as error:
        raise ConnectionError(str(error)) from error


def _hash_so_far(out: IO[bytes], size: int) -> tuple[Any, int]:
    """The hash and length of what an earlier command left; more than the whole file is thrown away."""
    digest = hashlib.sha256()
    if out.seek(0, os.SEEK_END) > size:
        out.truncate(0)
    out.seek(0)
    while part := out.read(_PART):
        digest.update(part)
    return digest, out.tell()


def _placed(folder: Path, blob: Path, file: HubFile) -> Path:
    """The file under its name in the snapshot, as the hub's own tools lay it."""
    place = folder / "snapshots" / file.commit / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() or place.exists():
        place.unlink()
    place.symlink_to(os.path.relpath(blob, place.parent))
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(file.commit, "utf-8")
    return place


def _file(repo: str, commit: Any, entry: Any) -> HubFile | None:
    """A GGUF file of the listing. None for what is no such file, or is named or described as none can be."""
    path, large = entry.get("rfilename"), entry.get("lfs") or {}
    sha256, size = large.get("sha256") or large.get("oid"), large.get("size")
    if not (isinstance(path, str) and path.lower().endswith(".gguf") and isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        return None
    inside = not path.startswith("/") and "\\" not in path and ".." not in path.split("/") and path.isprintable()
    if not (inside and isinstance(sha256, str) and _SHA256.fullmatch(sha256) and isinstance(size, int) and size > 0):
        return None
    return HubFile(repo, commit, path, size, sha256)


def _chosen(files: list[HubFile], repo: str, file: str | None) -> HubFile:
    if file is not None:
        found = [entry for entry in files if entry.path == file]
        if found:
            return found[0]
        names = ", ".join(entry.path for entry in files[:12]) or "no GGUF file"
        raise SpecError(f"{repo} has no file {file[:80]!a}; it has {names}", key="--file")
    whole = [entry for entry in files if not SPLIT.search(entry.path) and "mmproj" not in entry.path.lower()]
    if not whole:
        raise SpecError(f"{repo} has no GGUF file that stands by itself; name a repository of GGUF files", key="MODEL")
    return min(whole, key=lambda entry: (_rank(entry.path), entry.size, entry.path))


def _rank(path: str) -> int:
    return next((rank for rank, word in enumerate(_PREFERRED) if word in path.lower()), len(_PREFERRED))


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
