"""Plans probes at set times: of watched, owned and control names."""
