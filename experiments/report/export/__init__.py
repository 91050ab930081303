"""Runs -> tools people already use: a CSV file, TensorBoard, MLflow, Weights & Biases.

In: a workdir with runs in any state. Out: files on this machine; nothing is sent anywhere.
Level 3 of experiments, beside the report.
"""
