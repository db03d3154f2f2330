"""Documents that client, service and worker exchange: GNN specs, requests, results."""
