"""Independent draws: generators, procedures, and the store their results are frozen in.

Takes a source table and registered seeds, gives frozen releases, each from its own seed in
a clean process.
"""
