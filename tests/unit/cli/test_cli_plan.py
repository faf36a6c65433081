"""`headrace plan`: its document, its words, and one line for every value that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import app

GIB = 2**30
CONFIGS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[1] / "models" / "configs.json").read_text(encoding="utf-8")
)
ASKED = ("--prompt", "8000", "--output", "192")
FIELDS = [
    "known", "attention", "bytes_per_token", "bytes_per_request", "weights_bytes", "kv_pool_bytes", "kv_pool_tokens",
    "max_concurrency", "suggested_start", "notes",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, weights: int | None = None, **changed: Any) -> str:
    """A folder with the model's config.json, and an index that tells its weights."""
    folder = Path("model")
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIGS[name], **changed}), encoding="utf-8")
    if weights is not None:
        index = {"metadata": {"total_size": weights}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return str(folder)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert app.invoke(["plan", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def test_the_document_has_the_fields_that_scripts_rely_on(capsys: pytest.CaptureFixture[str]):
    folder = put("Llama-3.1-8B", 16_060_522_496)
    document = told(capsys, "--model", folder, "--gpu-memory", "79.25GiB", *ASKED)
    assert list(document)[: len(FIELDS)] == FIELDS
    assert {name: document[name] for name in FIELDS} == {
        "known": True, "attention": "gqa", "bytes_per_token": 131_072, "bytes_per_request": GIB, "weights_bytes": 16_060_522_496,
        "kv_pool_bytes": 60_078_510_243, "kv_pool_tokens": 458_362, "max_concurrency": 55, "suggested_start": 28, "notes": [],
    }  # fmt: skip
    assert document == told(capsys, "--model", f"{folder}/config.json", "--gpu-memory", "79.25GiB", *ASKED) | {"model": folder}


def test_without_memory_the_pool_is_null(capsys: pytest.CaptureFixture[str]):
    document = told(capsys, "--model", put("Llama-3.1-8B", 16_060_522_496), *ASKED)
    assert [document[name] for name in ("kv_pool_bytes", "kv_pool_tokens", "max_concurrency")] == [None, None, None]
    assert (document["known"], document["bytes_per_token"], document["suggested_start"]) == (True, 131_072, 6)


def test_a_config_without_weights_leaves_the_pool_unknown_until_they_are_told(capsys: pytest.CaptureFixture[str]):
    folder = put("Llama-3.1-8B")
    document = told(capsys, "--model", folder, "--gpu-memory", "80GiB", *ASKED)
    assert (document["weights_bytes"], document["kv_pool_bytes"], document["max_concurrency"]) == (None, None, None)
    assert "the weights are unknown" in document["notes"][0]
    document = told(capsys, "--model", folder, "--gpu-memory", "80GiB", "--weights", "15GiB", *ASKED)
    assert document["max_concurrency"] == 56
    assert document["notes"] == []


def test_a_hybrid_has_no_bytes_a_token(capsys: pytest.CaptureFixture[str]):
    document = told(capsys, "--model", put("Gemma-3-27B", 54 * GIB), "--gpu-memory", "80GiB", *ASKED)
    assert (document["attention"], document["bytes_per_token"], document["kv_pool_tokens"]) == ("hybrid", None, None)
    assert document["bytes_per_request"] == 1_056 * 2**20
    assert [layer["layers"] for layer in document["layers"]] == [10, 52]
    document = told(capsys, "--model", put("Jamba-v0.1"), *ASKED)
    assert document["bytes_per_request"] == 8_716_288 + 8192 * 16_384
    assert document["layers"][1] == {"kind": "state", "layers": 28, "bytes": 311_296}


def test_what_is_not_understood_is_unknown_and_no_error(capsys: pytest.CaptureFixture[str]):
    document = told(capsys, "--model", put("DeepSeek-V4", 10 * GIB), "--gpu-memory", "80GiB", *ASKED)
    assert document["known"] is False
    assert [document[name] for name in ("attention", "bytes_per_token", "bytes_per_request", "max_concurrency")] == [None] * 4
    assert document["weights_bytes"] == 10 * GIB
    assert "compress_rates is not understood" in document["notes"][0]
    assert (document["suggested_start"], document["table"], document["kv_dtype"]) == (6, [], None)
    assert app.invoke(["plan", "--model", put("DeepSeek-V4"), "--gpu-memory", "80GiB", *ASKED]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"a request   8,192 tokens: unknown", "at once     unknown"} <= {*lines}


def test_types_of_the_cache(capsys: pytest.CaptureFixture[str]):
    folder = put("Llama-3.1-8B")
    per_token = {
        kind: told(capsys, "--model", folder, "--kv-dtype", kind, *ASKED)["bytes_per_token"]
        for kind in ("auto", "bf16", "fp8", "q8_0", "q4_0")
    }
    assert per_token == {"auto": 131_072, "bf16": 131_072, "fp8": 65_536, "q8_0": 69_632, "q4_0": 36_864}
    scaled = put("Llama-3.1-8B", quantization_config={"kv_cache_scheme": {"num_bits": 8, "type": "float"}})
    assert told(capsys, "--model", scaled, *ASKED)["bytes_per_token"] == 65_536
    sparse = put("DeepSeek-V3.2")
    assert told(capsys, "--model", sparse, *ASKED)["bytes_per_token"] == 78_324
    assert told(capsys, "--model", sparse, "--kv-dtype", "fp8", *ASKED)["bytes_per_token"] == 48_068
    assert told(capsys, "--model", put("DeepSeek-V3"), "--kv-dtype", "fp8_ds_mla", *ASKED)["bytes_per_token"] == 40_016


def test_gpus_that_share_a_model_and_copies_of_it(capsys: pytest.CaptureFixture[str]):
    folder = put("Llama-3.1-8B", 16 * GIB)
    on = ("--model", folder, "--gpu-memory", "40GiB", "--utilization", "1", "--overhead", "0", *ASKED)
    assert told(capsys, *on)["max_concurrency"] == 24
    assert told(capsys, *on, "--tp", "2")["max_concurrency"] == 64
    assert told(capsys, *on, "--gpus", "2", "--tp", "2")["max_concurrency"] == 64
    assert told(capsys, *on, "--pp", "2")["max_concurrency"] == 64
    copies = told(capsys, *on, "--gpus", "4", "--tp", "2")
    assert (copies["max_concurrency"], copies["kv_pool_bytes"]) == (128, 128 * GIB)
    assert "2 copies" in copies["notes"][0]
    wide = told(capsys, *on, "--tp", "16")
    assert wide["bytes_per_token"] == 2 * 131_072
    assert "cannot be divided further" in wide["notes"][0]


@pytest.mark.parametrize(
    ("more", "note"),
    [
        (("--gpu-memory", "16GiB"), "nothing is left for the cache"),
        (("--gpu-memory", "20GiB"), "not one request of 8,192 tokens fits"),
        (("--gpu-memory", "80GiB", "--tp", "3"), "does not divide the model's heads evenly"),
        (("--gpu-memory", "80GiB", "--pp", "3"), "does not divide the layers evenly"),
        (("--gpu-memory", "800GiB"), "--max-num-seqs"),
        (("--kv-dtype", "q8_0"), "a type of llama.cpp's cache"),
    ],
)
def test_what_is_to_be_known_is_a_note(more: tuple[str, ...], note: str, capsys: pytest.CaptureFixture[str]):
    notes = told(capsys, "--model", put("Llama-3.1-8B", 16 * GIB), *more, *ASKED)["notes"]
    assert [text for text in notes if note in text]


def test_a_request_longer_than_the_context_is_told(capsys: pytest.CaptureFixture[str]):
    notes = told(capsys, "--model", put("Llama-3.1-8B"), "--prompt", "200000", "--output", "1")["notes"]
    assert any("longer than the model's context of 131,072" in note for note in notes)


def test_nothing_fits_and_nothing_is_to_be_started(capsys: pytest.CaptureFixture[str]):
    document = told(capsys, "--model", put("Llama-3.1-8B", 16 * GIB), "--gpu-memory", "16GiB", *ASKED)
    assert (document["kv_pool_bytes"], document["max_concurrency"], document["suggested_start"]) == (0, 0, 0)
    assert app.invoke(["plan", "--model", put("Llama-3.1-8B", 16 * GIB), "--gpu-memory", "16GiB", *ASKED]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines() if " MiB " in line and "," in line[:16]] == [
        ["1,024", "128.00", "MiB", "0"]
    ]


def test_a_shared_prefix_is_counted_once(capsys: pytest.CaptureFixture[str]):
    document = told(capsys, "--model", put("Llama-3.1-8B"), "--shared-prefix", "4096", *ASKED)
    assert document["bytes_per_request"] == document["shared_prefix_bytes"] == 4096 * 131_072


def test_numbers_stand_in_for_a_model(capsys: pytest.CaptureFixture[str]):
    numbers = ("--layers", "32", "--kv-heads", "8", "--head-dim", "128")
    document = told(capsys, *numbers, "--weights", "14.9575GiB", "--gpu-memory", "79.25GiB", *ASKED)
    assert (document["attention"], document["bytes_per_token"], document["max_concurrency"]) == ("full", 131_072, 55)


def test_people_get_lines_and_a_table_that_fit_a_terminal(capsys: pytest.CaptureFixture[str]):
    for name in ("Llama-3.1-8B", "Gemma-3-27B", "Qwen3-Next-80B-A3B", "DeepSeek-V3.2", "DeepSeek-V4"):
        assert app.invoke(["plan", "--model", put(name, 16 * GIB), "--gpu-memory", "80GiB", "--tp", "8", *ASKED]) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 100
    assert "unknown" in out
    assert app.invoke(["plan", "--model", put("Llama-3.1-8B", 16_060_522_496), "--gpu-memory", "79.25GiB", *ASKED]) == 0
    out = capsys.readouterr().out
    assert "at once     55 requests (55.95)" in out
    assert "start with  concurrency = { start = 28 }" in out
    assert "131,072          16.00 GiB         3" in out


@pytest.mark.parametrize(
    ("arguments", "key", "allowed"),
    [
        (("--tp", "0"), "--tp", "a whole number from 1 to"),
        (("--tp", "two"), "--tp", "a whole number from 1 to"),
        (("--pp", "-1"), "--pp", "a whole number from 1 to"),
        (("--gpus", "1.5"), "--gpus", "a whole number from 1 to"),
        (("--gpus", "3", "--tp", "2"), "--gpus", "a multiple of 2"),
        (("--gpus", "1", "--tp", "2"), "--gpus", "a multiple of 2"),
        (("--block", "0"), "--block", "a whole number from 1 to"),
        (("--gpu-memory", "80"), "--gpu-memory", "80GiB"),
        (("--gpu-memory", "80 parsecs"), "--gpu-memory", "80GiB"),
        (("--gpu-memory", "0GiB"), "--gpu-memory", "80GiB"),
        (("--gpu-memory", "-1GiB"), "--gpu-memory", "80GiB"),
        (("--gpu-memory", "9" * 400 + "GiB"), "--gpu-memory", "80GiB"),
        (("--gpu-memory", "99999999999999GiB"), "--gpu-memory", "no more than"),
        (("--overhead", "nan"), "--overhead", "80GiB"),
        (("--weights", "much"), "--weights", "80GiB"),
        (("--utilization", "92"), "--utilization", "above 0, at most 1"),
        (("--utilization", "0"), "--utilization", "above 0, at most 1"),
        (("--utilization", "nan"), "--utilization", "above 0, at most 1"),
        (("--utilization", "most"), "--utilization", "above 0, at most 1"),
        (("--kv-dtype", "fp4"), "--kv-dtype", "auto, bf16, fp8"),
        (("--kv-dtype", "fp8_ds_mla"), "--kv-dtype", "auto, bf16, fp8"),
        (("--shared-prefix", "8001"), "--shared-prefix", "no more than the prompt's 8000 tokens"),
        (("--shared-prefix", "x\x1b[31m\n"), "--shared-prefix", "a whole number from 0 to"),
        (("--prompt", "0"), "--prompt", "a whole number from 1 to"),
        (("--output", "0"), "--output", "a whole number from 1 to"),
        (("--prompt", "9" * 5000), "--prompt", "a whole number from 1 to"),
        (("--prompt", "²"), "--prompt", "a whole number from 1 to"),
        (("--layers", "3"), "--layers", ""),
        (("--name", "m"), "--name", ""),
        (("--api-key-env", "KEY"), "--api-key-env", ""),
    ],
)
def test_a_value_that_cannot_be_used_is_one_line_with_what_is_allowed(
    arguments: tuple[str, ...], key: str, allowed: str, capsys: pytest.CaptureFixture[str]
):
    assert app.invoke(["plan", "--model", put("Llama-3.1-8B"), *ASKED, *arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert err.startswith(f"headrace: {key}")
    assert allowed in err
    assert err[:-1].isprintable()
    assert json.loads(out)["error"]["key"] == key


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ((), "--model"),
        (("--layers", "32", "--kv-heads", "8"), "--model"),
        (("--layers", "32", "--kv-heads", "8", "--head-dim", "x"), "--head-dim"),
        (("--model", "gone"), "--model"),
        (("--model", "gone/config.json"), "--model"),
        (("--model", "gone.gguf"), "--model"),
        (("--model", "."), "--model"),
        (("--model", "ftp://host"), "--model"),
        (("--model", "http://127.0.0.1:9", "--api-key-env", "NOT_SET_ANYWHERE"), "--api-key-env"),
    ],
)
def test_a_model_that_cannot_be_read_is_one_line(arguments: tuple[str, ...], key: str, capsys: pytest.CaptureFixture[str]):
    assert app.invoke(["plan", *arguments, *ASKED, "--json"]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert json.loads(out)["error"]["key"] == key


def test_a_key_that_no_header_can_carry_is_not_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_KEY", "geh\u00e9im")
    assert app.invoke(["plan", "--model", "http://127.0.0.1:9", "--api-key-env", "SOME_KEY", *ASKED]) == 2
    assert "geh" not in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["--prompt", "--output"])
def test_lengths_are_needed(missing: str, capsys: pytest.CaptureFixture[str]):
    place = ASKED.index(missing)
    rest = ASKED[:place] + ASKED[place + 2 :]
    assert app.invoke(["plan", "--model", put("Llama-3.1-8B"), *rest]) == 2
    assert missing in capsys.readouterr().err
