"""What the owner wrote in ``config.yaml``, checked, as plain values. Import the modules; this page
stays empty so that the command line starts fast."""
