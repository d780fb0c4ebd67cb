"""How Airflow opens the site's SQLite database ([database] sql_alchemy_connect_args)."""

# Seconds that a writer waits for another: five, the default, are too few for a dozen busy processes.
CONNECT_ARGS = {"timeout": 60}
