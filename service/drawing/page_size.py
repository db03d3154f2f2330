"""The size of a drawing, in pixels."""

WIDTH = 760
MARGIN = 32
HEADER_HEIGHT = 84
