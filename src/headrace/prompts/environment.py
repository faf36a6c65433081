"""The Jinja sandbox that prompts and `where` run in: what templates may do, and what each failure says to people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, UndefinedError, meta, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace import canon
from headrace.errors import RecordError, SpecError

MESSAGE_CHARS = 300
FIELDS_NAMED = 12
T = TypeVar("T")
WHOLE_RECORD = "record"  # the name under which a template finds the whole record

# What a template, which is the user's own program, can raise on a record. Everything else is a bug of ours.
FAULTS = (TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


class NullPrintedError(RecordError):
    """The template printed null; who knows the record says which field it was."""


def printed(value: Any) -> str:
    """A value as it stands in a prompt: text as it is, truth values, numbers, lists and objects as JSON.

    Raises RecordError for null and for what is no data (a function, a generator), UndefinedError for undefined.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Undefined):
        str(value)  # a strict undefined raises here, with its own words
    if value is None:
        raise NullPrintedError("the template printed null")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | dict | list | tuple):
        try:
            return canon.encode(value).decode()
        except (TypeError, ValueError, RecursionError):
            raise RecordError(f"the template printed a {type(value).__name__} that JSON cannot hold") from None
    raise RecordError(f"the template printed a {type(value).__name__}, which is no data")


def _as_json(value: Any, indent: int | None = None) -> str:
    """The filter `tojson` for prompts: plain JSON, without Jinja's escapes for HTML."""
    if indent is None and not isinstance(value, str) and value is not None:
        return printed(value)
    if isinstance(value, Undefined):
        str(value)
    return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's visitor names it so
        """`a ~ b` prints its parts as `{{ }}` does; Jinja's own way would turn null into the text "None"."""
        self.write("''.join((")
        for part in node.nodes:
            self.write("environment.finalize(")
            self.visit(part, frame)
            self.write("), ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """Strict, no autoescape, nothing loaded from files, nothing random: equal records give equal prompts.

    A key of an object wins over a Python method of the same name, so that `{{ order.items }}` is the data.
    """

    code_generator_class = _Generator

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=printed)
        del self.globals["lipsum"]
        del self.filters["random"]
        self.filters["tojson"] = _as_json

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


_SANDBOX = Sandbox()
_FOREIGN: tuple[type[nodes.Node], ...] = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class TextTemplate:
    """One compiled template. `key` is the key of the job file that it stands in, for messages.

    `fields` are the record's fields that it reads; None if that cannot be known before a record is there. Line ends in
    the template come out as a line feed; a last line end is kept. `beginning` is the text before anything that a record
    changes. Raises SpecError where the template cannot be used.
    """

    def __init__(self, source: str, key: str) -> None:
        try:
            tree = _SANDBOX.parse(source)
            self._template = _SANDBOX.from_string(tree)
        except TemplateSyntaxError as error:
            refuse(error, key, "template")
        except (RecursionError, MemoryError, OverflowError):
            raise SpecError(f"{key}: the template is nested too deeply", key=key) from None
        for foreign in (found for kind in _FOREIGN for found in tree.find_all(kind)):
            message = f"{key}, line {foreign.lineno}: a template cannot load another; write the text here or use user_file"
            raise SpecError(message, key=key)
        self.key = key
        self.fields = _fields(tree)
        self.beginning = _beginning(tree)
        self._plain = _plain_parts(tree)
        self._globals = dict(_SANDBOX.globals)

    def render(self, fields: dict[str, Any]) -> str:
        """The text for one record. Raises RecordError, with one line for people."""
        try:
            if self._plain is not None:
                return "".join([part if name is None else printed(fields[name]) for part, name in self._plain])
        except (KeyError, NullPrintedError):
            pass  # the general way below says what is wrong, or finds the name elsewhere
        variables = {**self._globals, WHOLE_RECORD: fields, **fields}
        return guarded(lambda: "".join(self._template.root_render_func(self._context(variables))), fields, self.fields)

    def _context(self, variables: dict[str, Any]) -> Context:
        return self._template.new_context(variables, shared=True)


def compile_expression(source: str, key: str) -> Callable[[dict[str, Any]], Any]:
    """A Jinja expression over the record. Raises SpecError; the function raises RecordError."""
    try:
        evaluate = _SANDBOX.compile_expression(source, undefined_to_none=False)
    except TemplateSyntaxError as error:
        refuse(error, key, "expression")
    except (RecursionError, MemoryError, OverflowError):
        raise SpecError(f"{key}: the expression is nested too deeply", key=key) from None
    return lambda fields: evaluate({WHOLE_RECORD: fields, **fields})


def guarded(work: Callable[[], T], fields: Mapping[str, Any], used: frozenset[str] | None = None) -> T:
    """Do what a template does with a record; whatever it raises becomes a RecordError that names the record's fields."""
    try:
        return work()
    except UndefinedError as error:
        raise RecordError(short(f"{error.message}; the record has {_listed(fields)}")) from None
    except NullPrintedError as error:
        nulls = [name for name in (fields if used is None else sorted(used)) if name in fields and fields[name] is None]
        raise RecordError(short(f"{error} (null in the record: {_listed(nulls)})" if nulls else str(error))) from None
    except FAULTS as error:
        raise RecordError(short(f"the template failed: {type(error).__name__}: {error}")) from None


def refuse(error: TemplateSyntaxError, key: str, what: str) -> NoReturn:
    raise SpecError(short(f"{key}, line {error.lineno} of the {what}: {error.message}"), key=key) from None


def short(text: str) -> str:
    """A message's text on one line: what is not printable is escaped, and it ends after 300 characters."""
    text = text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 1] + "…"
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)[:MESSAGE_CHARS]


def _listed(fields: Any) -> str:
    names = [repr(name if len(name) <= 40 else name[:40] + "…") for name in list(fields)[:FIELDS_NAMED]]
    more = len(fields) - len(names)
    return (", ".join(names) or "no fields") + (f" and {more} more" if more > 0 else "")


def _fields(tree: nodes.Template) -> frozenset[str] | None:
    """The record's fields that a template reads, those behind `record["…"]` too."""
    names = meta.find_undeclared_variables(tree)
    if WHOLE_RECORD not in names:
        return frozenset(names)
    named: set[str] = set()
    reads = 0
    for attribute in tree.find_all(nodes.Getattr):
        if _is_record(attribute.node):
            named.add(attribute.attr)
            reads += 1
    for item in tree.find_all(nodes.Getitem):
        if _is_record(item.node) and isinstance(item.arg, nodes.Const) and isinstance(item.arg.value, str):
            named.add(item.arg.value)
            reads += 1
    if reads != sum(1 for name in tree.find_all(nodes.Name) if name.name == WHOLE_RECORD):
        return None
    return frozenset((names - {WHOLE_RECORD}) | named)


def _is_record(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == WHOLE_RECORD


def _beginning(tree: nodes.Template) -> str:
    first = tree.body[0] if tree.body else None
    if isinstance(first, nodes.Output) and isinstance(first.nodes[0], nodes.TemplateData):
        return str(first.nodes[0].data)
    return ""


def _plain_parts(tree: nodes.Template) -> list[tuple[str, str | None]] | None:
    """Text and names in turn, for a template that does nothing but print fields (most do); else None.

    Such a template is joined in a tenth of the time that Jinja needs to set up a rendering.
    """
    parts: list[tuple[str, str | None]] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                parts.append((node.data, None))
            elif isinstance(node, nodes.Name) and node.name != "self":
                parts.append(("", node.name))
            else:
                return None
    return parts
