"""What the hardware and the model allow, without a trace."""
