"""Generators and learning procedures that come with the package, one file a kind.

Found by name through `draw.catalog` and loaded when named.
"""
