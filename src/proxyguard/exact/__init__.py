"""The mathematics: floats and arrays in, floats out.

Takes numbers, gives numbers; knows nothing of audits, and may be read next to the paper's
Section 4. Numpy and scipy only.
"""
