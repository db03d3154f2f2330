"""The graphs or nodes that a counterfactual job explains, with their rules and seeds."""
