"""Commands that start an engine. They first resolve names, and print a line of text per row."""
