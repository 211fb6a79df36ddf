"""One mode, one file: what it claims, what it needs, how it decides and how it is planned.

Takes registered choices and evidence, gives bounds on the reliability of a mechanism.
"""
