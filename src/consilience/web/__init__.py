"""A page on this machine for deciding doubtful items, while the consensus follows."""
