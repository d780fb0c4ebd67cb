"""The declarations: lab/internet.toml, checked and expanded into hosts, endpoints, names and web sites."""
