"""Messages between API and workers: `dispatcher` decides when, `queue_publisher` sends them."""
