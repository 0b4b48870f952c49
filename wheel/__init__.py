"""The hierarchical timing wheel: pure data structure, no clock, no I/O, no async, no logging."""
