from __future__ import annotations

from d4explain.cli.options import Json, Url
from d4explain.cli.output.terminal import print_json, print_line
from d4explain.client.client import Client


def signing_keys(as_json: Json = False, url: Url = None) -> None:
    """Print the public keys that verify receipts, for `d4explain verify --key`."""
    with Client(url) as client:
        keys = client.signing_keys()
    if as_json:
        print_json(keys)
        return
    for key in keys:
        print_line(key.public_key.strip())
