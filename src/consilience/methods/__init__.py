"""Methods of the crowd family, one file each: annotations in, Dawid-Skene parameters out."""
