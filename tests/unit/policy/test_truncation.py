"""Servers that read only a part of long prompts are suspected of it, and no others: trajectories of what they counted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from importlib.resources import files

import pytest

from headrace.policy.tokens import Span, span
from headrace.policy.truncation import LEAST_BYTES, TruncationWatch, text_of, tokens_of
from headrace.values import Usage

ENGLISH = [json.loads(line)["text"] for line in files("headrace.demo").joinpath("records.jsonl").read_text("utf-8").splitlines()]
SIZED = [(text, span(text).expected) for text in ENGLISH if len(text) < 600]
SCRIPTS = {
    "chinese": "今天天气很好，我们一起去公园散步吧。孩子们在草地上玩耍，老人们在树下下棋。",
    "russian": "Сегодня хорошая погода, и мы идём гулять в парк. Дети играют на траве, а старики играют в шахматы.",
    "hindi": "आज मौसम अच्छा है और हम पार्क में टहलने जा रहे हैं। बच्चे घास पर खेल रहे हैं।",
    "code": "def add(first: int, second: int) -> int:\n    return first + second\n\n\nif __name__ == '__main__':\n    print(add(1, 2))\n",
    "digits": "2024-01-31T12:59:03.123456Z 17 0x1f4a 3.14159265 998877665544 127.0.0.1:8080\n",
    "table": "name                    count                    share\n-----------------------------------------------------\n",
    "filler": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
}


def payload(text: str, system: str = "") -> bytes:
    messages = [{"role": "system", "content": system}] if system else []
    return json.dumps([*messages, {"role": "user", "content": text}], ensure_ascii=False, separators=(",", ":")).encode()


def prompts(tokens: Iterable[int], seed: int = 1) -> list[tuple[bytes, int]]:
    """Payloads of about so many tokens, and the tokens that they have."""
    rng = random.Random(seed)
    found = []
    for wanted in tokens:
        texts, have = [], 0.0
        while have < 0.9 * wanted:
            more = rng.choice(SIZED)
            texts.append(more[0])
            have += more[1]
        found.append((payload("\n".join(texts)), round(have) + 12))
    return found


def suspected(watch: TruncationWatch, replies: Iterable[tuple[bytes, Usage]]) -> list[bool]:
    return [len(sent) >= LEAST_BYTES and watch.is_suspect(sent, usage) for sent, usage in replies]


def capped(given: Iterable[tuple[bytes, int]], cap: int) -> list[tuple[bytes, Usage]]:
    return [(sent, Usage(min(real, cap), 10)) for sent, real in given]


def test_ctx_01_long_prompts_of_which_only_a_part_was_counted_are_suspected_and_short_ones_are_not() -> None:
    rng = random.Random(7)
    given = prompts([rng.randrange(100, 8000) for _ in range(300)])
    watch = TruncationWatch()
    found = suspected(watch, capped(given, 2048))
    assert watch.cap == 2048
    is_long = [real > 2048 for _, real in given]
    assert not any(flag and not long for flag, long in zip(found, is_long, strict=True))
    assert found[30:] == is_long[30:]  # once it is known where the cut is, each
    assert sum(found[:30]) >= 0.5 * sum(is_long[:30])


def test_ctx_01_prompts_that_grow_are_suspected_from_where_the_text_says_so() -> None:
    given = prompts(range(200, 8000, 50))
    watch = TruncationWatch()
    found = suspected(watch, capped(given, 2048))
    assert watch.cap == 2048  # those between are found by this number afterwards
    assert not any(found[: sum(real <= 2048 for _, real in given)])
    assert all(flag for flag, (_, real) in zip(found, given, strict=True) if real > 6000)


def test_ctx_01_a_server_that_cuts_every_prompt_from_the_first_on_is_found_out() -> None:
    watch = TruncationWatch()
    assert all(suspected(watch, capped(prompts(range(6000, 8000, 50)), 2048)))


def test_ctx_01_messages_that_are_dropped_leave_no_round_number() -> None:
    watch = TruncationWatch()
    found = suspected(watch, [(sent, Usage(1500 + n, 10)) for n, (sent, _) in enumerate(prompts(range(6000, 8000, 50)))])
    assert all(found)
    assert watch.cap is None


def test_text_of_which_nothing_can_be_said_is_told_by_what_the_same_server_counted_before() -> None:
    filler = [payload("x" * size) for size in range(4000, 32_000, 200)]
    watch = TruncationWatch()
    found = suspected(watch, [(sent, Usage(min(len(sent) // 4, 2048), 10)) for sent in filler])
    assert watch.cap == 2048
    assert found[-20:] == [True] * 20
    assert not any(found[:20])


def test_a_server_that_reads_more_after_all_is_not_suspected_by_the_number() -> None:
    watch = TruncationWatch()
    suspected(watch, capped(prompts([6000, 7000, 8000]), 2048))
    assert watch.cap == 2048
    assert not any(suspected(watch, capped(prompts([3000, 2036]), 9000)))
    assert watch.cap is None


def test_a_chat_template_adds_tokens_and_takes_none_away() -> None:
    given = prompts(range(1000, 6000, 40))
    for added in (0, 20, 2000):
        assert not any(suspected(TruncationWatch(), [(sent, Usage(real + added, 10)) for sent, real in given]))


@pytest.mark.parametrize("seed", range(5))
def test_mixed_scripts_are_not_suspected_whatever_tokenizer_counts_them(seed: int) -> None:
    rng = random.Random(seed)
    names = [*SCRIPTS, "english"]
    share = rng.random()
    replies = []
    for _ in range(400):
        name = rng.choice(names)
        text = "".join(rng.choice(ENGLISH) for _ in range(12)) if name == "english" else SCRIPTS[name] * rng.randrange(50, 400)
        said = span(text)
        replies.append((payload(text), Usage(round(_between(said, share)), 10)))
    assert not any(suspected(TruncationWatch(), replies))


def _between(said: Span, share: float) -> float:
    return said.low + share * (said.high - said.low)


def test_pieces_that_were_cut_beforehand_to_exactly_so_many_tokens_are_whole() -> None:
    rng = random.Random(3)
    replies = []
    for _ in range(150):
        text = rng.choice([*SCRIPTS.values(), *ENGLISH])
        while span(text).expected < 2000:
            text += text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if span(text[:middle]).expected < 2000 else (low, middle)
        replies.append((payload(text[:low]), Usage(2048, 10)))
    watch = TruncationWatch()
    assert not any(suspected(watch, replies))
    assert watch.cap is None


def test_prompts_that_were_cached_are_whole() -> None:
    system = "".join(ENGLISH[:60])
    begin = len(payload("", system)) - 4
    given = []
    for n in range(200):
        text = "".join(ENGLISH[60 + n % 120 : 64 + n % 120])
        given.append((payload(text, system), round(span(system).expected), round(span(text).expected)))
    counted_whole = [(sent, Usage(shared + own, 10, cached=shared)) for sent, shared, own in given]
    counted_apart = [(sent, Usage(own, 10, cached=shared)) for sent, shared, own in given]
    never_told = [(sent, Usage(own + (shared if n == 0 else 0), 10)) for n, (sent, shared, own) in enumerate(given)]
    again = [(given[0][0], Usage(1, 10))] * 50  # nothing was left to be computed
    for replies in (counted_whole, counted_apart, never_told, again):
        assert not any(suspected(TruncationWatch(begin), replies))


def test_instructions_that_are_cut_away_with_few_shots_are_found_by_the_number() -> None:
    system = "".join(ENGLISH[:60])
    begin = len(payload("", system)) - 4
    watch = TruncationWatch(begin)
    assert span(system).low > 4000
    replies = [(payload("x " * (100 + 40 * n), system), Usage(2048, 10)) for n in range(40)]
    assert all(suspected(watch, replies)[20:])


@pytest.mark.parametrize(
    "part",
    [{"type": "image_url", "image_url": {"url": "data:" + "A" * 60_000}}, {"type": "input_audio", "input_audio": "B" * 9000}],
)
def test_images_and_sounds_say_nothing(part: dict[str, object]) -> None:
    sent = json.dumps([{"role": "user", "content": [{"type": "text", "text": "what is this? " * 400}, part]}]).encode()
    assert not any(
        suspected(TruncationWatch(), [(json.dumps(json.loads(sent), separators=(",", ":")).encode(), Usage(900, 10))] * 9)
    )
    assert tokens_of(json.dumps(json.loads(sent), separators=(",", ":")).encode()) is None


def test_what_the_server_does_not_count_is_not_judged() -> None:
    assert not TruncationWatch().is_suspect(b"x" * 9000, Usage(None, 10))


def test_few_values_are_kept() -> None:
    watch = TruncationWatch()
    suspected(watch, [(sent, Usage(300 + n % 700, 10)) for n, (sent, _) in enumerate(prompts([4000] * 5) * 300)])
    assert len(watch._values) <= 256


def test_the_words_of_a_payload() -> None:
    assert text_of(b'"a prompt"') == "a prompt"
    assert (
        text_of(b'[{"role":"user","content":"a"},{"content":[{"type":"text","text":"b"},{"type":"x"},3]},7,{"content":null}]')
        == "a\nb"
    )
    assert text_of(b"not json \xff") == "not json \N{REPLACEMENT CHARACTER}"
    assert text_of(b"17") == ""
    assert (tokens_of(b'"some words of English"') or 0) > 2
