"""Reply → Answer or Failure: finish reasons first, then emptiness, then the text or the JSON value itself."""

from __future__ import annotations

from typing import Any

from headrace import canon
from headrace.answers.excerpt import excerpt
from headrace.answers.extract import Extracted, Fault, compact_text, extract, parse
from headrace.answers.schema import LABEL, WHOLE, AnswerSchema
from headrace.answers.think import without_think
from headrace.errors import SpecError
from headrace.spec import JobSpec
from headrace.values import Answer, Failure, Kind, Note, Reply, Usage

ENDED = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call"})
CUT = frozenset({"length", "max_tokens"})
QUOTED_CHARS = 4_000  # of a wrong answer, in a re-ask
LARGE_CHARS = 10_000  # of a value whose parts messages do not repeat
SCHEMA_CHARS = 4_000  # a longer schema is not repeated in a re-ask


class AnswerJudge:
    """Judges replies by the job's `[answer]`. Pure and without memory of earlier replies; its methods never raise.

    `schema` is what an endpoint sends as `response_format` (None for plain text). Raises SpecError where the keys of
    `[answer]` do not fit together.
    """

    def __init__(self, spec: JobSpec) -> None:
        answer = spec.answer
        self.schema = AnswerSchema.of(spec)
        labels = self.schema.labels if self.schema is not None else None
        self._labels = {label: canon.encode(label).decode() for label in labels or ()}
        if answer.field is not None and self.schema is None:
            raise SpecError("answer.field needs answer.schema: a plain text has no fields", key="answer.field")
        if answer.field is not None and self._labels and answer.field != LABEL:
            raise SpecError('answer.field cannot stand beside answer.labels, whose only field is "label"', key="answer.field")
        if answer.field is not None and self.schema is not None:
            _refuse_impossible(answer.field, self.schema.schema)
        self._field = None if self._labels else answer.field
        self._lenient = answer.extract == "lenient"
        self._strip_think = answer.strip_think
        self._from_reasoning = answer.from_reasoning == "if_valid" and self.schema is not None
        self._keep_cut = answer.on_truncated == "keep" and self.schema is None
        self._is_chat = spec.model.route != "completions"
        self._instruction = _instruction(self.schema)

    def judge(self, reply: Reply) -> Answer | Failure:
        """The answer that a reply holds, or why it holds none. `Failure.usage` is what the reply cost all the same."""
        finish = reply.finish
        if finish == "stop":
            notes: tuple[Note, ...] = ()
            cut = False
        else:
            word = (finish or "").lower()
            if word.startswith("content_filter"):
                return _failure(reply, Kind.CONTENT_FILTER, f"the endpoint's content filter cut the answer ({excerpt(word)})")
            cut = word in CUT
            notes = () if cut or word in ENDED else (Note.FINISH_UNKNOWN,)
        if reply.refusal or finish == "refusal":
            return _failure(reply, Kind.REFUSAL, f"the model refused: {reply.refusal or reply.content or ''}")
        usage = reply.usage
        if usage is None or usage.prompt is None or usage.completion is None:
            notes = (*notes, Note.USAGE_MISSING)
        content = reply.content
        if cut:
            return self._cut(reply, notes)
        if not content or content.isspace():
            return self._without_content(reply, notes)
        if self.schema is not None:
            return self._value(reply, content, self.schema, notes)
        return self._text(reply, content, notes)

    def reask(self, payload: bytes, reply: Reply, failure: Failure) -> bytes:
        """The payload with the wrong answer and a stricter instruction appended; spliced, never parsed."""
        text = reply.content or ""
        if self._strip_think:
            outside = without_think(text)
            text = text if outside is None else outside
        text = text.strip()[:QUOTED_CHARS]
        instruction = f"Your answer was not accepted: {excerpt(failure.message)}. {self._instruction}"
        if not self._is_chat:
            quoted = f"\n\n{text}" if text else ""
            return payload[:-1] + canon.encode(f"{quoted}\n\n{instruction}\n\n")[1:]
        messages = [{"role": "user", "content": instruction}]
        if text:
            messages.insert(0, {"role": "assistant", "content": text})
        return payload[:-1] + b"," + canon.encode(messages)[1:]

    def _cut(self, reply: Reply, notes: tuple[Note, ...]) -> Answer | Failure:
        if self._keep_cut and reply.content and not reply.content.isspace():
            kept = self._text(reply, reply.content, (Note.OUTPUT_CUT, *notes))
            if isinstance(kept, Answer):
                return kept
        return _failure(
            reply, Kind.TRUNCATED, f"the answer was cut at the token limit{_spent(reply.usage)}; raise model.max_tokens"
        )

    def _without_content(self, reply: Reply, notes: tuple[Note, ...]) -> Answer | Failure:
        reasoning = reply.reasoning
        if not reasoning or reasoning.isspace():
            return _failure(reply, Kind.EMPTY, "the reply holds no text")
        if self._from_reasoning and self.schema is not None:
            answer = self._value(reply, reasoning, self.schema, notes)
            if isinstance(answer, Answer):
                return answer
        return _failure(
            reply, Kind.TRUNCATED, f"reasoning came and no answer after it{_spent(reply.usage)}; raise model.max_tokens"
        )

    def _text(self, reply: Reply, content: str, notes: tuple[Note, ...]) -> Answer | Failure:
        if not self._strip_think:
            return Answer(None, notes)
        outside = without_think(content)
        if outside is None or isinstance(parse(content), Extracted):
            return Answer(None, notes)
        if not outside:
            return _failure(reply, Kind.EMPTY, "a think block and no answer after it")
        return Answer(canon.encode(outside).decode(), notes)

    def _value(self, reply: Reply, content: str, schema: AnswerSchema, notes: tuple[Note, ...]) -> Answer | Failure:
        found = extract(content, lenient=self._lenient, strip_think=self._strip_think)
        if self._labels and not (isinstance(found, Extracted) and isinstance(found.value, dict)):
            bare = self._bare_label(content, found)
            if bare is not None:
                return Answer(bare, (*notes, Note.REPAIRED))
        if isinstance(found, Fault):
            return _failure(reply, Kind.EMPTY if found.blank else Kind.INVALID_JSON, found.message)
        mismatch = schema.fault(found.value, is_large=len(found.text) > LARGE_CHARS)
        if mismatch is not None:
            return _failure(reply, Kind.SCHEMA_MISMATCH, mismatch)
        if found.repaired:
            notes = (*notes, Note.REPAIRED)
        value = found.value
        if self._labels:
            return Answer(self._labels[value[LABEL]], notes)
        if self._field is None:
            return Answer(found.text, notes)
        if not isinstance(value, dict) or self._field not in value:
            return _failure(reply, Kind.SCHEMA_MISMATCH, f"{WHOLE}: required: the answer has no field {self._field!r}")
        return Answer(compact_text(value[self._field]), notes)

    def _bare_label(self, content: str, found: Extracted | Fault) -> str | None:
        """The JSON text of a label without the object around it: what servers without schema support answer."""
        if isinstance(found, Extracted) and isinstance(found.value, str):
            text = found.value
        else:
            outside = without_think(content) if self._strip_think else None
            text = content if outside is None else outside
        text = text.strip()
        return self._labels.get(text)


def _refuse_impossible(field: str, schema: dict[str, Any]) -> None:
    """A field that no answer of this schema can have: each record would be asked, and asked again, for nothing."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and schema.get("additionalProperties") is False and field not in properties:
        names = ", ".join(map(repr, properties))
        raise SpecError(f"answer.field: answers of this schema have no field {field!r}; they have {names}", key="answer.field")


def _failure(reply: Reply, kind: Kind, message: str) -> Failure:
    return Failure(kind, excerpt(message), usage=reply.usage)


def _spent(usage: Usage | None) -> str:
    if usage is None or usage.completion is None:
        return ""
    thought = f", {usage.reasoning} of them reasoning" if usage.reasoning else ""
    return f" after {usage.completion} tokens{thought}"


def _instruction(schema: AnswerSchema | None) -> str:
    """What a re-ask says after the cause."""
    if schema is None:
        return "Answer again, with the answer's text."
    if schema.labels is not None:
        labels: Any = canon.encode(schema.labels).decode()
        return f'Answer again, with one JSON object {{"label": …}} and nothing else. The label is one of {labels}.'
    text = canon.encode(schema.schema).decode()
    shown = f": {text}" if len(text) <= SCHEMA_CHARS else "."
    return f"Answer again, with one JSON value and nothing else: no prose, no code fence. It must match the JSON Schema{shown}"
