"""From a config.json to the operators of one step."""
