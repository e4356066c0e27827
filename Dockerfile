# inorder: the worker and the command line, with the core compiled by mypyc.
#
#   docker build -t inorder .
#   docker run inorder worker --topology /etc/inorder/topology.yaml --brokers kafka:9092 \
#       --state-dir /var/lib/inorder --http 0.0.0.0:8080
#
# Port 8080, if --http names it: /live, /ready, /metrics. There is no HEALTHCHECK: what
# ready means, and what to do about it, is the orchestrator's to ask there.
# The process is the container's first and ends on SIGTERM after a last checkpoint:
# give it 30 seconds. /var/lib/inorder holds local copies of state and may be lost.

# A release names its base images by digest, so that the same source makes the same image: ask
# `docker buildx imagetools inspect IMAGE` for the digest, and give it as
#   --build-arg PYTHON_SLIM=python:3.12-slim-bookworm@sha256:…
# and PYTHON_FULL likewise. By default they are the tags, which move.
ARG PYTHON_FULL=python:3.12-bookworm
ARG PYTHON_SLIM=python:3.12-slim-bookworm

FROM ${PYTHON_FULL} AS build
WORKDIR /src

COPY requirements.lock ./
RUN python -m venv /opt/inorder \
    && /opt/inorder/bin/pip install --no-cache-dir --require-hashes -r requirements.lock

COPY requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-build.lock

COPY . .
RUN INORDER_COMPILE=1 pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist \
        ./inorder . \
    && /opt/inorder/bin/pip install --no-cache-dir --no-deps /dist/*.whl \
    && /opt/inorder/bin/pip uninstall --yes pip

FROM ${PYTHON_SLIM}
RUN useradd --uid 10001 --user-group --no-log-init --create-home --home-dir /var/lib/inorder inorder
COPY --from=build /opt/inorder /opt/inorder
COPY LICENSE NOTICE /usr/share/doc/inorder/
ENV PATH=/opt/inorder/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /var/lib/inorder
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["inorder"]
CMD ["--help"]
