"""The cost of each kind of operator, next to its formula."""
