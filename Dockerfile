# An image with t2t_jax and the releases that it was tested with:
#
#     docker build --tag=t2t_jax .                            for a CPU
#     docker build --build-arg=EXTRA=tpu --tag=t2t_jax .      tpu, cuda or cuda12
#     docker run --volume="$PWD/runs:/runs" t2t_jax train --config=configs/tiny.py --workdir=/runs/w
#     docker run --gpus=all ...                               with the image for cuda or cuda12
#
# docs/CLUSTERS.md says how hosts of a TPU slice run it together under GKE.
FROM python:3.11-slim

ARG EXTRA=gcs
# Of the code that it is built from: git rev-parse HEAD. A record names it.
ARG COMMIT=unknown

WORKDIR /t2t_jax
# First what changes seldom, with a package of nothing: new code then installs no release again.
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN mkdir t2t_jax && touch t2t_jax/__init__.py \
 && pip install --no-cache-dir --constraint constraints.txt ".[${EXTRA}]"
COPY t2t_jax t2t_jax
RUN pip install --no-cache-dir --no-deps --force-reinstall .
COPY configs configs
COPY experiments experiments

ENV T2T_JAX_COMMIT=${COMMIT}
# What it is asked to stop with reaches training itself, which then saves a checkpoint.
STOPSIGNAL SIGTERM
ENTRYPOINT ["t2t-jax"]
CMD ["--help"]
