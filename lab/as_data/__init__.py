"""The lab's routing table and AS organisations, published as on the real Internet."""
