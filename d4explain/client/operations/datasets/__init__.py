"""The client's calls about reference sets and large graphs."""
