"""The gate: whether a challenger takes the champion's place, by evidence; and the registration of the winner."""
