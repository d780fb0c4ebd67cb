"""The store's tables: updates to schemas/, how long rows stay, and a check for damage."""
