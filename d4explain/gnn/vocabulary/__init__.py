"""The layers of a spec as dataclasses, their widths and their roles."""
