"""A scheduler shard: owns partitions, holds their jobs in wheels, fires what is due, hands over."""
