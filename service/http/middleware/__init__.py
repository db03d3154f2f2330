"""What every request passes before its route, outermost last: limits, origins and the audit log."""
