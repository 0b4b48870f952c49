"""In-memory twins of the three edges, for tests, the simulation and users' own tests."""
