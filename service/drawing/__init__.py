"""Draws explanations: `rendering` answers the request, `svg` draws the picture."""
