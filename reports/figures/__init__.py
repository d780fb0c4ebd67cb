"""A report page's figures: each module collects the numbers and draws them as inline SVG."""
