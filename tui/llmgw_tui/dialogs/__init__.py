"""What lies over a screen until it is answered."""
