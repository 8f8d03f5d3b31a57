"""What the data can tell: identifiability, agreement, and what to collect next."""
