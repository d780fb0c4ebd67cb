"""The ANRW paper's tables and figures about downloads: printed, and as a page."""
