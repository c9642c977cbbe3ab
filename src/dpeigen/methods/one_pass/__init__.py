"""Methods that read every row once, batch by batch."""
