"""Typicality of single graphs: is it uniform on unseen graphs, and does it detect edits?"""
