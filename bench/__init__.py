"""The benchmarks: one file each, one for measuring, one for reporting."""
