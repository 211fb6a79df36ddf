"""Tables: CSV and Parquet read and written, what columns hold, and when two are the same.

Takes a file or its bytes, gives a frame of numbers and text. `columns` says what a column may
hold, `files` reads and writes tables and digests their records.
"""
