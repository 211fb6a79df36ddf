"""Networks that learn a table, many draws at once: the arithmetic of the neural generators.

Every tensor has a leading axis of draws, so that the networks of a batch are trained as one
product. Nothing here knows tables or audits: torch and numpy are enough, also where a GPU is.
"""

import os

# Without it the products of Intel's library depend, in their last bits, on where in memory a matrix
# begins, and so on which draws stand before it. Read at the library's first use; a setting that a
# user has made is left alone.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
# Else torch loads, when it is imported, whatever installed package says that it is a backend: code
# of others in a process that has not given up its rights yet. Draws use a CPU or CUDA alone.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
