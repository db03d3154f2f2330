"""Routes of keys, of the sessions of browsers and of links to explanations."""
