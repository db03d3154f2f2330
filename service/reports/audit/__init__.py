"""The audit report of an evaluation: `report.py` writes its content, other modules the files."""
