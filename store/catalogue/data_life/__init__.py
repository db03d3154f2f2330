"""Deletes resources safely: what is used or on hold stays."""
