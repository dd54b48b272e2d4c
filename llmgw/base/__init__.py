"""What every room may use: time, errors, units, passes, secrets, logging, the outer world."""
