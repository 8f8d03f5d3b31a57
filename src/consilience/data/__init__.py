"""What annotators said: annotations, sequences, and the ids, names, times and truths that come with them."""
