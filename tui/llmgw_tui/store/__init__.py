"""What the console knows: fed by one watch, read by every screen."""
