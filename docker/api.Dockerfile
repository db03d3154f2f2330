# The API: HTTP, job records, dispatcher. No torch.
FROM python:3.11-slim-bookworm AS dependencies
WORKDIR /src
COPY pyproject.toml constraints.txt docker/requirements.py ./
RUN python -m venv /opt/d4explain \
    && python requirements.py server postgres s3 molecules pdf otel > requirements.txt \
    && /opt/d4explain/bin/pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt

FROM python:3.11-slim-bookworm
# RDKit needs these libraries to draw molecules.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libexpat1 libxext6 libxrender1 \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home --home-dir /var/lib/d4explain d4explain \
    && install -d -o d4explain -g d4explain /var/lib/d4explain/artifacts /var/lib/d4explain/spool
COPY --from=dependencies /opt/d4explain /opt/d4explain
# The server runs from its source tree, in small layers above the dependencies.
COPY pyproject.toml README.md LICENSE /opt/d4explain/src/
COPY d4explain /opt/d4explain/src/d4explain
COPY store /opt/d4explain/src/store
COPY service /opt/d4explain/src/service
# The root file system is read-only at run time, so bytecode is compiled now.
RUN /opt/d4explain/bin/pip install --no-cache-dir --no-deps --editable /opt/d4explain/src \
    && /opt/d4explain/bin/python -m compileall -q /opt/d4explain/src
ENV PATH=/opt/d4explain/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1 \
    D4_DATA_DIR=/var/lib/d4explain \
    D4_HOST=0.0.0.0 \
    D4_PORT=8400
USER 10001
WORKDIR /var/lib/d4explain
EXPOSE 8400
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8400/livez', timeout=2)"]
CMD ["python", "-m", "service"]
