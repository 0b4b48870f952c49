"""Membership, election, the plan of who owns which partition, drain, the claim floor."""
