"""Methods of the crowd family: annotations in, Dawid-Skene parameters out, one file each."""
