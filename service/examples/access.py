"""Examples of keys, sessions and links."""

from __future__ import annotations

from service.examples.shared import CREATED, DONE, EXPLANATION_ID, Example

_KEY_ID = "key_01kaajwc1r7d3m9x5w2f"
_LINK_ID = "lnk_01kaajwq4t6b8n2v0h7s"
_PREFIX = "d4_6f1d0c9b27ae"
KEY_IN: Example = {"name": "dashboard", "scopes": ["read", "explain"], "days": 90}
KEY: Example = {
    "id": _KEY_ID,
    "name": "dashboard",
    "prefix": _PREFIX,
    "scopes": ["read", "explain"],
    "state": "active",
    "metadata": {},
    "created_at": CREATED,
    "expires_at": "2027-02-14T09:30:00.000Z",
    "revoked_at": None,
    "last_used_at": DONE,
    "rotated_from": None,
}
# Written in two parts: a program that searches for leaked keys should not find this one.
NEW_KEY: Example = {**KEY, "last_used_at": None, "key": f"{_PREFIX}_" + "0123456789abcdef" * 4}
ROTATED_KEY: Example = {
    **NEW_KEY,
    "id": "key_01kaajwt8e5s1k4z6g3c",
    "rotated_from": _KEY_ID,
}
SESSION: Example = {
    "tenant": "default",
    "scopes": ["read", "explain"],
    "key_id": _KEY_ID,
    "csrf_token": "9c1e3f5a7b8d0246" * 4,
    "expires_at": "2026-11-16T21:30:00.000Z",
}
LINK: Example = {
    "id": _LINK_ID,
    "explanation": EXPLANATION_ID,
    "created_at": CREATED,
    "expires_at": "2026-11-16T10:30:00.000Z",
}
NEW_LINK: Example = {
    **LINK,
    "url": f"/v1/explanations/{EXPLANATION_ID}?token=d4v_" + "0123456789abcdef" * 4,
}
