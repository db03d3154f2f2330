"""Sends requests to one API, for the blocking and for the asynchronous client."""
