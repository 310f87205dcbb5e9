"""Which kernel is which operator."""
