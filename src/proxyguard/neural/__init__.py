"""Networks that learn a table, many draws at once: the arithmetic of the neural generators.

Every tensor has a leading axis of draws, so that the networks of a batch are trained as one
product. Nothing here knows tables or audits: torch and numpy are enough, also where a GPU is.
"""
