"""Commands about explanations, predictions and their jobs."""
