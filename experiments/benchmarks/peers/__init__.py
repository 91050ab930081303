"""What ours is measured against, written out by hand for other libraries."""
