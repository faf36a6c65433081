"""Answers derived from the prompt."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import jsonschema_rs
import orjson
import pytest

from headrace.testing.laws import Laws
from headrace.testing.replies import Drawn, Prompt, UnansweredError, draw, likeliest

CHAT = Prompt.of_messages(
    [
        {"role": "system", "content": "You sort."},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": [{"type": "text", "text": "a spider in"}, {"type": "text", "text": "the web"}]},
    ]
)
LABEL_SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["red", "green", "blue"]}},
    "required": ["label"],
    "additionalProperties": False,
}


def prompts(count: int) -> list[Prompt]:
    return [Prompt.of_text(f"record {n}") for n in range(count)]


def test_the_whole_chat_counts_and_the_last_user_message_is_what_is_asked():
    assert CHAT.last == "a spider in\nthe web"
    assert CHAT.tokens == -(-len("You sort.\nfirst\nok\na spider in\nthe web") // 4)


@pytest.mark.parametrize("wrong", [None, [], "hi", [1], [{"content": "x"}], [{"role": "user", "content": 5}]])
def test_what_is_no_chat_is_refused(wrong: Any):
    with pytest.raises(ValueError, match="mes"):
        Prompt.of_messages(wrong)


def test_echo_says_the_last_user_message_or_its_beginning():
    assert draw(Laws(), CHAT) == Drawn("a spider in\nthe web", "stop", 5)
    assert draw(Laws(answer="echo:8"), CHAT).content == "a spider"


def test_an_answer_longer_than_max_tokens_is_cut():
    assert draw(Laws(), CHAT, max_tokens=2) == Drawn("a spider", "length", 2)
    assert draw(Laws(), CHAT, max_tokens=5).finish == "stop"


def test_text_is_said_as_it_is():
    assert draw(Laws(answer="text:yes: really"), CHAT).content == "yes: really"


def test_labels_are_picked_by_the_prompt_and_repeat():
    laws = Laws(answer="label", labels=("a", "b", "c"))
    picked = [draw(laws, prompt).content for prompt in prompts(300)]
    assert picked == [draw(laws, prompt).content for prompt in prompts(300)]
    assert min(Counter(picked).values()) > 60


def test_labels_come_from_the_request_s_schema_before_the_command_s():
    laws = Laws(answer="label", labels=("a", "b"))
    for prompt in prompts(30):
        said = orjson.loads(draw(laws, prompt, LABEL_SCHEMA).content)
        assert said["label"] in ("red", "green", "blue")


def test_a_table_decides_by_the_first_substring_that_the_prompt_holds():
    laws = Laws(answer="label", table={"web": "net", "spider": "zoo"})
    assert draw(laws, CHAT).content == "net"
    schema = {"type": "object", "properties": {"label": {"enum": ["zoo", "net"]}}, "required": ["label"]}
    assert orjson.loads(draw(laws, CHAT, schema).content) == {"label": "net"}


def test_a_share_of_the_prompts_gets_a_wrong_label():
    table = {"record": "red"}
    laws = Laws(answer="label", table=table, label_errors=0.2)
    said = [orjson.loads(draw(laws, prompt, LABEL_SCHEMA).content)["label"] for prompt in prompts(1000)]
    assert said.count("red") / 1000 == pytest.approx(0.8, abs=0.05)
    assert {"green", "blue"} < set(said)


def test_without_labels_there_is_no_label():
    with pytest.raises(UnansweredError, match="--labels"):
        draw(Laws(answer="label"), CHAT)


def test_json_obeys_the_schema_and_differs_by_prompt():
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "n": {"type": "integer", "minimum": 2}}}
    said = {draw(Laws(answer="json"), prompt, schema).content for prompt in prompts(10)}
    assert len(said) == 10
    for content in said:
        jsonschema_rs.validate(schema, orjson.loads(content))


def test_json_without_a_schema_is_an_object():
    for schema in (None, True):
        assert isinstance(orjson.loads(draw(Laws(answer="json"), CHAT, schema).content), dict)


def test_a_schema_beyond_simulation_is_refused_and_nothing_is_fetched():
    for schema in ({"type": "string", "not": {"minLength": 0}}, {"type": "string", "if": {"$ref": "http://127.0.0.1:9/x"}}):
        with pytest.raises(UnansweredError, match="no answer can be made"):
            draw(Laws(answer="json"), CHAT, schema)


def test_lone_surrogates_are_counted_and_echoed():
    prompt = Prompt.of_text("a\ud800b")
    assert draw(Laws(), prompt).content == "a\ud800b"


def test_the_likeliest_token_is_the_first_word_of_what_would_be_said():
    laws = Laws(answer="label", labels=("new york", "los angeles", "rome"))
    for prompt in prompts(50):
        found = likeliest(laws, prompt, 20, spaced=False)
        assert found[0][0] == draw(laws, prompt).content.split()[0]
        assert {"new", "los", "rome"} <= {token for token, _ in found}
        assert found == sorted(found, key=lambda pair: -pair[1])
        assert sum(math.exp(value) for _, value in found) == pytest.approx(1, abs=1e-4)


def test_as_many_likeliest_tokens_as_asked_the_same_for_the_same_prompt():
    laws = Laws(answer="label", labels=("red", "green"))
    assert [len(likeliest(laws, CHAT, count, spaced=True)) for count in (1, 5, 100)] == [1, 5, 8]
    assert likeliest(laws, CHAT, 5, spaced=True) == likeliest(laws, CHAT, 5, spaced=True)
    assert all(token.startswith(" ") for token, _ in likeliest(laws, CHAT, 5, spaced=True))


def test_an_answer_without_a_word_has_likeliest_tokens_too():
    assert likeliest(Laws(), Prompt.of_text(""), 3, spaced=False)[0][0] == ""
