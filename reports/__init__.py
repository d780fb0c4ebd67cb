"""Reports from the store: tables, figures, a run's page, named queries, traces.

page/ tables/ figures/ numbers/     the report page
downloads/                          the report of downloads
calibration                         the answers of probes compared with handshakes
query                               named queries (schemas/queries)
trace                               a row's packets
panel                               panels (schemas/panels) of dashboards
dashboard/                          the web server: `serve`, `app`, `pages/`, `asking/` (processes that run
                                    its queries), `connection/` (limits of connections)
grafana, superset                   files for Grafana and Superset, generated from panels and kinds
"""
