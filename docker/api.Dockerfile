# The API: HTTP, job records, dispatcher. No torch.
FROM python:3.11-slim-bookworm AS dependencies
WORKDIR /src
COPY pyproject.toml constraints.txt docker/requirements.py ./
RUN python -m venv /opt/d4explain \
    && python requirements.py postgres s3 molecules > requirements.txt \
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

FROM python:3.11-slim-bookworm
# RDKit draws molecules with these.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libexpat1 libxext6 libxrender1 \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home --home-dir /var/lib/d4explain d4explain \
    && install -d -o d4explain -g d4explain /var/lib/d4explain/artifacts /var/lib/d4explain/spool
# The source is a small layer of its own: a change to it leaves the dependencies' layer alone.
COPY --from=dependencies /opt/d4explain /opt/d4explain
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    /opt/d4explain/bin/pip install --no-cache-dir --no-deps --no-index /dist/*.whl
ENV PATH=/opt/d4explain/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    D4_DATA_DIR=/var/lib/d4explain \
    D4_HOST=0.0.0.0 \
    D4_PORT=8400
USER 10001
WORKDIR /var/lib/d4explain
EXPOSE 8400
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8400/livez', timeout=2)"]
CMD ["python", "-m", "service"]
