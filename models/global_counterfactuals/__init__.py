"""A few graphs of another class that are near to many graphs of a class; start with `explain`."""
