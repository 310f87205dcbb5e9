"""When the GPU worked and when it waited: intervals, steps, gaps and the budget."""
