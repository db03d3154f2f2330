"""Graphs, edits and edit spaces, neighbourhoods and subgraphs."""
