"""The documents of an audit: every file and every ledger entry that it writes, as a frozen type.

Takes bytes and gives objects, or one error that names file and field; takes objects and gives
canonical bytes. Nothing here opens files, decides or checks one document against another.
"""
