"""What the columns of node and edge features mean: names, featurisers, allowed values."""
