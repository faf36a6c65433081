"""Every error headrace raises on purpose.

    HeadraceError
    ├── SpecError            the job file or the arguments cannot be used                     exit 2
    │   └── NotYetError      a key or command that this release does not serve yet            exit 2
    ├── InputError           the input cannot be read at all                                  exit 2
    │   └── InputBrokenError the input broke off after reading had begun                      exit 7
    ├── RecordError          one record cannot become a request; it becomes a rejected item
    ├── LedgerError          the ledger cannot be used                                        exit 7
    │   ├── EmptyLedgerError a crash came before anything was stored                          exit 7
    │   ├── DiskError        a durable write failed: disk full, read-only folder, I/O error   exit 7
    │   └── LockedError      another process holds the run                                    exit 7
    ├── EndpointError        a command about an endpoint alone cannot reach or use it         exit 4
    ├── FetchError           a model, or what is told of it, cannot be fetched                exit 4
    ├── OutputError          the output cannot be written                                     exit 7
    └── RunNotFoundError     no run answers to that name                                      exit 2

What went wrong with one request is no exception but a value: `headrace.values.Failure`.
A message is one line for people: what is wrong, where, what to do. It never holds a secret.
"""

from __future__ import annotations

from typing import ClassVar


class HeadraceError(Exception):
    """The root. `exit_code` is what the command ends with when the error reaches its edge."""

    exit_code: ClassVar[int] = 1


class SpecError(HeadraceError):
    """The job file or the arguments cannot be used; nothing was sent.

    `key` is the dotted key, `found` a short form of what stood there (never a secret), `allowed` what may.
    """

    exit_code = 2

    def __init__(self, message: str, *, key: str | None = None, found: str | None = None, allowed: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.found = found
        self.allowed = allowed


class NotYetError(SpecError):
    """A key or command that stands in the contract and is not served by this release."""


class InputError(HeadraceError):
    """The input cannot be read at all; nothing was sent."""

    exit_code = 2


class InputBrokenError(InputError):
    """The input broke off after reading had begun: what was read stands, the rest is unknown."""

    exit_code = 7


class RecordError(HeadraceError):
    """One record cannot become a request. The message is the cause that its output row carries."""


class LedgerError(HeadraceError):
    """The ledger cannot be used: not a ledger, of a newer release, on a network file system."""

    exit_code = 7


class EmptyLedgerError(LedgerError):
    """A crash came before anything was stored: there is no run to go on with, and nothing was paid."""


class DiskError(LedgerError):
    """A durable write failed. Nothing after the last commit is marked done."""


class LockedError(LedgerError):
    """Another process holds the run."""


class EndpointError(HeadraceError):
    """The endpoint that a command is about is not reached, or refuses. In a run that is no error but an ending."""

    exit_code = 4


class FetchError(HeadraceError):
    """A model, or what a server tells of it, cannot be fetched: nobody is reached, refuses, or sends something else.

    What came so far is kept.
    """

    exit_code = 4


class OutputError(HeadraceError):
    """The output file cannot be written; the ledger is intact and `headrace export` writes it elsewhere."""

    exit_code = 7


class RunNotFoundError(HeadraceError):
    """No run answers to that name."""

    exit_code = 2
