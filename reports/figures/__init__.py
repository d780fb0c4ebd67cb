"""The figures of a report page: each module collects its numbers and draws them as inline SVG."""
