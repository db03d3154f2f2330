"""Speed benchmarks, mostly as ratios within one run, so that the load of the machine cancels."""
