"""A site without Airflow: vantage points, inputs from the centre, pending uploads."""
