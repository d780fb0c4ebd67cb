"""The parts in a site that work without Airflow: vantage points, inputs from the centre, pending uploads."""
