"""Runs -> what people already watch: a CSV file, TensorBoard, MLflow, Weights & Biases.

In: a workdir with runs in whatever state. Out: files on this machine; nothing is sent anywhere.
Floor 3 of experiments, beside the report.
"""
