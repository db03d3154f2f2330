"""What an API key may do, and whose data it opens."""

from __future__ import annotations

from enum import StrEnum

DEFAULT_TENANT = "default"  # owns everything in a deployment without keys


class TokenKind(StrEnum):
    SESSION = "session"  # of a browser; may do what its key may do
    LINK = "link"  # reads one explanation


class KeyState(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class Scope(StrEnum):
    READ = "read"  # read everything of the tenant
    EXPLAIN = "explain"  # ask for explanations and predictions, cancel and retry jobs
    REGISTER = "register"  # register and delete GNNs, reference sets and denoisers
    ADMIN = "admin"  # keys, webhooks, retention and the audit log
