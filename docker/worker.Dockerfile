# A worker. TORCH_INDEX is the wheel index for torch. PyTorch's CPU index gives a small image;
# without it, pip's own index gives the CUDA build, which runs on CPUs and GPUs alike.
ARG BASE=python:3.11-slim-bookworm
# hadolint ignore=DL3006
FROM ${BASE} AS dependencies
ARG TORCH_INDEX=
WORKDIR /src
# torch comes first: it is by far the largest layer and rarely changes.
RUN python -m venv /opt/d4explain \
    && /opt/d4explain/bin/pip install --no-cache-dir ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch==2.13.0
COPY pyproject.toml constraints.txt docker/requirements.py ./
RUN python requirements.py worker postgres s3 molecules otel > requirements.txt \
    && /opt/d4explain/bin/pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt

# hadolint ignore=DL3006
FROM ${BASE}
RUN useradd --uid 10001 --create-home --home-dir /var/lib/d4explain d4explain \
    && install -d -o d4explain -g d4explain /var/lib/d4explain/artifacts /var/lib/d4explain/spool
COPY --from=dependencies /opt/d4explain /opt/d4explain
# The server runs from its source tree, in small layers above the dependencies.
COPY pyproject.toml README.md LICENSE /opt/d4explain/src/
COPY d4explain /opt/d4explain/src/d4explain
COPY store /opt/d4explain/src/store
COPY models /opt/d4explain/src/models
COPY worker /opt/d4explain/src/worker
# The root file system is read-only at run time, so bytecode is compiled now.
RUN /opt/d4explain/bin/pip install --no-cache-dir --no-deps --editable /opt/d4explain/src \
    && /opt/d4explain/bin/python -m compileall -q /opt/d4explain/src
ENV PATH=/opt/d4explain/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1 \
    D4_DATA_DIR=/var/lib/d4explain
USER 10001
WORKDIR /var/lib/d4explain
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s \
    CMD ["python", "-m", "worker", "--check"]
ENTRYPOINT ["python", "-m", "worker"]
CMD ["--queues", "train,sample,light"]
