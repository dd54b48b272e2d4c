"""What can be seen and changed through the admin API, one command each."""
