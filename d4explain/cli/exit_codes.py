"""Exit codes of all commands; docs/cli.md has the same table."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    ERROR = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    UNSUCCESSFUL = 5
    TIMEOUT = 6
    DIFFERENT = 7
    GATE = 8
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "the command did what it was asked; an answer without a counterfactual counts, "
    "too",
    ExitCode.ERROR: "a file, a name, a model or a setting is wrong, or a check of `doctor` or "
    "`demo` failed",
    ExitCode.USAGE: "the command line is wrong: an unknown command or option, or a missing value",
    ExitCode.UNREACHABLE: "no server answers at the address",
    ExitCode.REFUSED: "the API refused the request",
    ExitCode.UNSUCCESSFUL: "a job failed, was canceled or expired, the GNN failed its checks, or a "
    "replay was not comparable",
    ExitCode.TIMEOUT: "the job was not finished within `--timeout`; it goes on",
    ExitCode.DIFFERENT: "a replay differs, or a receipt, an answer or an audit log was changed",
    ExitCode.GATE: "a threshold of `gate` was crossed",
    ExitCode.INTERRUPTED: "Ctrl-C; jobs go on",
}


def exit_code(error: Exception) -> ExitCode:
    """The code of an expected error."""
    from d4explain.client import errors  # noqa: PLC0415 - commands such as `up` have no client

    codes = {
        errors.UnreachableError: ExitCode.UNREACHABLE,
        errors.RefusedError: ExitCode.REFUSED,
        errors.RejectedGnnError: ExitCode.UNSUCCESSFUL,
        errors.UnsuccessfulJobError: ExitCode.UNSUCCESSFUL,
        errors.WaitTimeoutError: ExitCode.TIMEOUT,
        errors.IncompleteLogError: ExitCode.DIFFERENT,
    }
    return codes.get(type(error), ExitCode.ERROR)
