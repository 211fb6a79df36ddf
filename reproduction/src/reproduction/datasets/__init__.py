"""Public data sets: a name -> a verified file -> a typed table.

`catalog` says what each data set is, with the size and digest of every file; `fetch` finds or
downloads the files and believes none before its digest fits; `load` reads them into tables
whose encodings are written down, and learns nothing from the rows; `prepare` writes the tables
that audits read.
"""
