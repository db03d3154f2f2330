"""What users write on the command line: files, nodes, classes and Python objects."""
