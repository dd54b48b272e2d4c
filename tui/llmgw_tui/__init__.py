"""The full-screen console. Importing the package loads nothing: `launch.run` is the door."""
