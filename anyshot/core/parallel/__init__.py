"""Threads in one process, ranks in several processes, and the collectives between them."""
