"""The commands of `python -m bench`, by what they measure."""
