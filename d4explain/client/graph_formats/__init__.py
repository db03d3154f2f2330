"""Converts graphs of PyG, NetworkX, RDKit texts and Parquet files to and from the API's JSON."""
