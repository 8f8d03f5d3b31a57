"""Labels that keep coming: a consensus that is updated instead of computed anew."""
