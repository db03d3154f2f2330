"""Who may use a deployment: API keys and the tenants that they belong to."""
