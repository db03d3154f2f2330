"""Defaults that client and server share."""

from __future__ import annotations

MIB = 1024 * 1024
API_HOST = "127.0.0.1"
API_PORT = 8400
DATA_DIR = ".d4explain"
