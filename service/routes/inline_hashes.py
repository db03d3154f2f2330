"""Content security policies of pages with inline scripts and styles."""

from __future__ import annotations

import base64
import hashlib
import re


def inline_hashes(page: str, tag: str) -> str:
    """Hashes of the page's inline scripts or styles; a policy with them allows no others."""
    parts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]
    return " ".join(f"'sha256-{digest}'" for digest in digests)
