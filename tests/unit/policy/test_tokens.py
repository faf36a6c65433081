"""Tokens by characters and script: how near the real counts they are, and that no text is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.tokens import Span, estimate, joined, profile, span, weigh

# Tokens as o200k, cl100k, Qwen 3.5, DeepSeek V3 and SmolLM2 have them.
COUNTED = [
    (
        "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.",
        (33, 33, 33, 33, 32),
    ),
    (
        "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.",
        (41, 50, 44, 50, 60),
    ),
    (
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
        (38, 44, 38, 43, 60),
    ),
    (
        "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.",
        (41, 74, 42, 46, 116),
    ),
    ("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。", (35, 50, 27, 27, 74)),
    (
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
        (72, 93, 43, 51, 151),
    ),
    (
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
        (51, 85, 47, 57, 192),
    ),
    (
        "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا بروح الإخاء.",
        (42, 80, 39, 44, 101),
    ),
    (
        "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
        (54, 180, 115, 92, 199),
    ),
    (
        "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
        (63, 135, 72, 52, 245),
    ),
    ("😀👍🎉🚀🔥❤️🙏✨😂🤔👩‍💻🇫🇷", (22, 40, 36, 25, 44)),
    ("2024-11-30 14:07:59,31415926535;27182818284;1000000;42", (28, 28, 54, 28, 54)),
    (
        'def mean(values: list[float]) -> float:\n    if not values:\n        raise ValueError("empty")\n    return sum(values) / len(values)\n',
        (32, 30, 34, 31, 35),
    ),
    (
        '{"id": 90210, "name": "node-pegjs", "tags": ["parser", "js"], "stats": {"size": 1048576, "ok": true}}',
        (41, 41, 48, 41, 48),
    ),
    ("-" * 72 + "\n" + " " * 40 + "|\n" + "=" * 72 + "\n", (6, 6, 9, 6, 8)),
]
SURROGATES = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    "text", ["<|endoftext|>", "<|im_start|>user\n<|im_end|>", "<|endofprompt|>", "\x00\x00", "\ud800\udc00 \udfff", "\U0010ffff"]
)
def test_special_tokens_and_odd_characters_are_ordinary_text(text: str) -> None:
    # REQ-02
    assert estimate(text) > 0
    assert span(text).low > 0


@pytest.mark.parametrize(("text", "counts"), COUNTED, ids=[text[:12] for text, _ in COUNTED])
def test_real_tokenizers_lie_within_the_span(text: str, counts: tuple[int, ...]) -> None:
    found = span(text)

    assert found.low <= 1.1 * min(counts)
    assert found.high >= 0.75 * max(counts)  # German by an English vocabulary is the farthest


def test_over_scripts_the_usual_tokenizers_are_met() -> None:
    texts = [text for text, _ in COUNTED]
    for tokenizer in range(4):  # without SmolLM2, whose vocabulary is small and English
        real = sum(counts[tokenizer] for _, counts in COUNTED)
        assert sum(map(estimate, texts)) == pytest.approx(real, rel=0.35)


def test_nothing_has_no_tokens() -> None:
    assert estimate("") == 0
    assert span("") == Span(0, 0, 0)


@given(SURROGATES.filter(bool))
def test_every_text_has_more_than_none_and_lies_within_its_span(text: str) -> None:
    found = span(text)

    assert 0 < found.low <= found.expected <= found.high
    assert estimate(text) == pytest.approx(found.expected, rel=1e-5)


@given(st.lists(SURROGATES, max_size=5))
def test_profiles_add_up(texts: list[str]) -> None:
    together = sum((profile(text) for text in texts), profile(""))

    assert weigh(together).expected == pytest.approx(sum(estimate(text) for text in texts), rel=1e-5, abs=1e-6)
    assert weigh(profile(joined(texts))).expected == pytest.approx(weigh(together).expected)


@given(SURROGATES)
def test_utf_8_that_is_there_already_is_taken_as_it_is(text: str) -> None:
    assert estimate(text.encode("utf-8", "surrogatepass")) == estimate(text)


def test_a_long_text_is_counted_as_its_parts_are() -> None:
    line = "Package descriptions of some length, with 42 numbers and (a few) marks.\n"

    assert estimate(line * 20_000) == pytest.approx(20_000 * estimate(line), rel=1e-4)


def test_texts_are_counted_together_as_they_are_alone() -> None:
    texts = ["Zwölf Boxkämpfer", "", "漢字 and 1,000 tokens", "\ud800"]
    together = weigh(profile(joined(texts)))
    alone = [span(text) for text in texts]
    assert together.expected == pytest.approx(sum(one.expected for one in alone))
    assert together.low == pytest.approx(sum(one.low for one in alone))
    assert together.high == pytest.approx(sum(one.high for one in alone))
    assert estimate(texts[0].encode()) == estimate(texts[0]) == pytest.approx(alone[0].expected, rel=1e-5)
