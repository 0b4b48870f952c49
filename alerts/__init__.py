"""Looks at the cluster every few seconds and tells people when something is wrong, and when it is over."""
