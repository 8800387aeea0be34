"""The commands around the audits, one file each."""
