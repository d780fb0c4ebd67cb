"""Downloads under capture. Nothing is built here yet."""
