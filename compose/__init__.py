"""How it is put together: the embedded stack behind `shardctl dev`, and the demo."""
