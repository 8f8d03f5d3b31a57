"""What a run returns: the consensus, its tables and its files."""
