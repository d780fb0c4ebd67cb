"""Help for tests of engines and their stages: feeds, rows, kills, waits, and checks of shared limits."""
