"""Reading what other schedulers were told: each entry becomes a job as posted, or a reason why it can't."""
