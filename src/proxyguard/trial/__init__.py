"""Takes a table and what stands in for it; gives an exploratory page with the way to an audit."""
