"""All that a certificate may look at.

Takes losses, gives p-values, scores, counts and their ceilings. Certificates never see a
loss array, so nothing can be chosen after looking.
"""
