"""Threads on one machine, ranks over several processes, and the collectives between them."""
