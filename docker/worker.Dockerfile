# A worker. TORCH_INDEX names the wheel index torch comes from: PyTorch's CPU index makes a small
# image; empty, pip's own index gives the CUDA build, which runs on CPUs and GPUs alike.
ARG BASE=python:3.11-slim-bookworm
# hadolint ignore=DL3006
FROM ${BASE} AS dependencies
ARG TORCH_INDEX=
WORKDIR /src
# First of all, since it is by far the largest: nothing that changes often comes before it.
RUN python -m venv /opt/d4explain \
    && /opt/d4explain/bin/pip install --no-cache-dir ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch==2.13.0
COPY pyproject.toml constraints.txt docker/requirements.py ./
RUN python requirements.py worker postgres s3 molecules > requirements.txt \
    && /opt/d4explain/bin/pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt

FROM dependencies AS build
COPY README.md LICENSE ./
COPY service service
COPY worker worker
COPY models models
COPY store store
COPY d4explain d4explain
COPY bench bench
RUN /opt/d4explain/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

# hadolint ignore=DL3006
FROM ${BASE}
RUN useradd --uid 10001 --create-home --home-dir /var/lib/d4explain d4explain \
    && install -d -o d4explain -g d4explain /var/lib/d4explain/artifacts /var/lib/d4explain/spool
# The source is a small layer of its own: a change to it leaves the dependencies' layer alone.
COPY --from=dependencies /opt/d4explain /opt/d4explain
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    /opt/d4explain/bin/pip install --no-cache-dir --no-deps --no-index /dist/*.whl
ENV PATH=/opt/d4explain/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    D4_DATA_DIR=/var/lib/d4explain
USER 10001
WORKDIR /var/lib/d4explain
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s \
    CMD ["python", "-m", "worker", "--check"]
ENTRYPOINT ["python", "-m", "worker"]
CMD ["--queues", "train,sample,light"]
