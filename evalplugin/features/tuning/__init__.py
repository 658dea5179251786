"""Tuning: parameters of models are chosen on validation data inside the train data, with one budget for all models."""
