"""The MLflow Model Registry: reading the champion, registering and serving the winner."""
