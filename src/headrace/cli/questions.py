"""Questions to the person at the terminal, and where there is none, their defaults."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from headrace.cli.printing import print_lines, print_words
from headrace.errors import HeadraceError, SpecError
from headrace.observe.text import printable

T = TypeVar("T")
NONE = "-"  # what is typed for "none of these"


class Question:
    """One question. `option` is what answers it on the command line; `default` None: it has to be answered."""

    def __init__(self, words: str, option: str, default: str | None = None) -> None:
        self.words = words
        self.option = option
        self.default = default


class NoAnswerError(SpecError):
    """The input ended where an answer was awaited."""


class Talk:
    """Asks, or where nobody is there takes what was given and the defaults."""

    def __init__(self, *, interactive: bool) -> None:
        self.interactive = interactive
        if interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401, PLC0415 (input() edits its line with it)

    def answer(self, question: Question, given: str | None, accept: Callable[[str], T]) -> T:
        """What `accept` makes of the answer. It raises one of our errors for a bad one: then a person is asked again.

        Raises that error where the answer was given with the command or is the default, SpecError where there is none.
        """
        if given is not None:
            return accept(given)
        if not self.interactive:
            if question.default is None:
                _missing(question)
            return accept(question.default)
        while True:
            try:
                return accept(self._asked(question))
            except NoAnswerError:
                raise
            except HeadraceError as error:
                print_words(f"  {error}")

    def say(self, line: str) -> None:
        if self.interactive:
            print_lines([line])

    @staticmethod
    def _asked(question: Question) -> str:
        shown = f" [{printable(question.default)}]" if question.default else ""
        try:
            said = input(f"{printable(question.words)}{shown}: ").strip()
        except EOFError:
            sys.stdout.write("\n")
            raise NoAnswerError("the answers ended; nothing was written") from None
        except UnicodeDecodeError:
            raise SpecError("that is not Unicode") from None
        if not said and question.default is None:
            raise SpecError("this needs an answer")
        return said or str(question.default)


def _missing(question: Question) -> NoReturn:
    raise SpecError(
        f"init needs {question.option}: {question.words[:1].lower()}{question.words[1:]}", key=question.option, found="nothing"
    )
