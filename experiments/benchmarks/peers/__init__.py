"""What ours is compared with, written by hand for other libraries."""
