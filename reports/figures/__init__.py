"""A report page's figures: each module collects its numbers and draws them as inline SVG."""
