"""Bounded per-record quantities and one pass over them.

Takes arrays, chunks or moments and the declared design; gives the statistics that tests
may look at.
"""
