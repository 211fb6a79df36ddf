"""From evidence and budgets to certificates, one file per theorem.

Takes evidence, gives bounds and decisions that say what they rest on.
"""
