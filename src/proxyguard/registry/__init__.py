"""What is claimed, checked once when it is declared.

Takes what a person wrote, gives frozen values that cannot be wrong.
"""
