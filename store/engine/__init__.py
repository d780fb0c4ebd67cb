"""ClickHouse's engine in this process (chDB): its sessions, what it allows, and the formats of answers."""
