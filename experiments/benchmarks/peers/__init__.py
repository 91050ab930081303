"""Programs compared with ours, written by hand for other libraries."""
