"""Compares the pinned versions with known vulnerabilities: `make audit`.

Exit codes: 0 none is known, 1 some are, 3 nothing was checked because no source of advisories
answers. A version with a known vulnerability is asked as well; a source that does not know it has
no advisories, and proves nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OSV = "https://api.osv.dev/v1/query"
KNOWN = ("jinja2", "2.4.1")  # CVE-2019-10906 and others
FOUND, NOT_CHECKED = 1, 3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--osv-url", default=OSV, help="a server of advisories (default: OSV)")
    parser.add_argument("--pins", type=Path, default=ROOT / "constraints.txt")
    options = parser.parse_args(arguments)
    pins = dict(line.split("==") for line in options.pins.read_text().split())
    try:
        audited = _audited(pins, options.osv_url)
    except ValueError as error:
        print(f"audit: not checked: {error}", file=sys.stderr)
        return NOT_CHECKED
    vulnerable = [one for one in audited if one["vulns"]]
    for one in vulnerable:
        for advisory in one["vulns"]:
            fixed = ", ".join(advisory["fix_versions"]) or "no version"
            print(f"audit: {one['name']} {one['version']}: {advisory['id']}, fixed by {fixed}")
    print(f"audit: {len(audited)} versions checked, {len(vulnerable)} with known vulnerabilities")
    return FOUND if vulnerable else 0


def _audited(pins: dict[str, str], url: str) -> list[dict[str, Any]]:
    """The answer for every pin; raises ValueError if the source proves nothing."""
    known = _queried(dict([KNOWN]), url)
    if not known[0]["vulns"]:
        raise ValueError(f"{url} does not know the vulnerabilities of {'=='.join(KNOWN)}")
    audited = _queried(pins, url)
    if len(audited) != len(pins):
        raise ValueError(f"{url} answered for {len(audited)} of {len(pins)} versions")
    return audited


def _queried(pins: dict[str, str], url: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "pins.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--strict", "--no-deps", "--disable-pip"),
                *("--vulnerability-service", "osv", "--osv-url", url, "--cache-dir", folder),
                *("--progress-spinner", "off", "--format", "json", "--requirement", str(listed)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise ValueError(f"{url} gave no answer ({last[:200]})") from None
    return [one for one in found if "vulns" in one]


if __name__ == "__main__":
    sys.exit(main())
