"""The same work on the schedulers that a Python team would pick instead: one file a peer, one set of rows."""
