"""`inorder spark backfill`: inputs found and read in pieces, the tasks, and the account."""
