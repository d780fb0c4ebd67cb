"""The figures of a report page: each module gathers its numbers and draws them as inline SVG."""
