"""What all parts share: settings, runs, shards, captures and clocks."""
