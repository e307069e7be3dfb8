"""What this host can do, found by trying it: the work of `outgrow doctor`."""
