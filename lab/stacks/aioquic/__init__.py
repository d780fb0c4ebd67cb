"""The lab's server on aioquic."""
