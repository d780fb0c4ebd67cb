"""The spine: settings, runs and their manifests, the store, the loader."""
