"""Workers: consume, claim, run handlers, heartbeat, report."""
