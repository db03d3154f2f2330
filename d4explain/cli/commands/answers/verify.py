from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.input.files import read_file
from d4explain.cli.options import Json
from d4explain.cli.output.terminal import print_json, print_line
from d4explain.contracts.receipts.envelopes import VerificationError, public_keys
from d4explain.contracts.receipts.gate_verification import verify_test_result
from d4explain.contracts.receipts.verification import (
    is_audit_log,
    is_test_result,
    verify_audit_log,
    verify_receipt,
)
from d4explain.errors import CommandError


def verify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A receipt, a test result, or an export of the audit log.",
        ),
    ],
    key: Annotated[
        list[Path],
        typer.Option("--key", help="File with public keys in PEM form; may be repeated."),
    ],
    *,
    result: Annotated[
        Path | None, typer.Option(help="The answer or figures that it is about, byte for byte.")
    ] = None,
    head: Annotated[
        Path | None, typer.Option(help="An end of the audit log that was signed earlier.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a receipt, a test result or an audit log offline; exit code 7 if it was changed."""
    content = read_file(file)
    is_log = is_audit_log(content)
    if is_log and result is not None:
        raise CommandError("--result is for receipts; this file is an audit log")
    if not is_log and head is not None:
        raise CommandError("--head is for audit logs; this file is not one")
    try:
        keys = {id_: each for path in key for id_, each in public_keys(read_file(path)).items()}
    except VerificationError as error:
        raise CommandError(str(error)) from None
    answer = None if result is None else read_file(result)
    earlier = None if head is None else read_file(head)
    try:
        if is_test_result(content):
            said, found = verify_test_result(content, keys, answer)
            counts = f"{len(found.failedTests)} of {found.count} checks failed"
            text = f"the test result of {said.name} is signed: {found.result}, {counts}"
            text += "; the figures give the same" if answer else "; it was not checked again"
        elif is_log:
            end = verify_audit_log(content, keys, earlier)
            text = f"the audit log of {end.tenant} is complete up to entry {end.position}"
        else:
            said = verify_receipt(content, keys, answer)
            text = f"the receipt of {said.name} is signed; SHA-256 {said.sha256}"
            text += " is that of the result" if answer else " was not compared with a result"
    except VerificationError as error:
        if as_json:
            print_json({"verified": False, "detail": str(error)})
        else:
            print_line(f"{file.name} does not fit: {error}")
        raise typer.Exit(ExitCode.DIFFERENT) from None
    print_json({"verified": True, "detail": text}) if as_json else print_line(text)
