"""Tables: CSV, Parquet and Arrow read and written, what columns hold, and when two are the same.

Takes a file or its bytes, gives a frame of numbers and text.
"""
