"""The parts of a site that need no Airflow: vantage points, inputs from the centre, pending uploads."""
