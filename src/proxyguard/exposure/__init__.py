"""How much each record looks like one that a release was made from.

Takes a release, the rows that it was made from and rows of others; gives scores of attacks, each a
fixed function of one record, and what they say about members and nonmembers.
"""
