"""From the engine's segments to the record files of a stage."""
