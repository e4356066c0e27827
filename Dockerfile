# inorder: the worker and the command line, with the core compiled by mypyc.
#
#   docker build -t inorder .
#   docker run inorder worker --topology /etc/inorder/topology.yaml --brokers kafka:9092 \
#       --state-dir /var/lib/inorder --http 0.0.0.0:8080
#
# Port 8080, if --http names it: /live, /ready, /metrics. There is no HEALTHCHECK: what
# ready means, and what to do about it, is the orchestrator's to ask there.
# tini is the container's first process, so that SIGTERM counts from the first instant (the kernel keeps from
# a first process what it has no handler for yet). A worker ends on it after a last checkpoint:
# give it 45 seconds. /var/lib/inorder holds local copies of state and may be lost. Beside it only
# /tmp is written to, so the root may be read-only (infra/compose.yaml, the chart). Parquet, for
# `sink files`, `replay` and `--from-backfill`, wants --build-arg EXTRAS=files, and 170 MB more.

# With base images named by digest, the same source makes the same image: ask
# `docker buildx imagetools inspect IMAGE` for the digest, and give it as
#   --build-arg PYTHON_SLIM=python:3.12-slim-bookworm@sha256:…
# and PYTHON_FULL likewise. By default they are the tags, which move.
ARG PYTHON_FULL=python:3.12-bookworm
ARG PYTHON_SLIM=python:3.12-slim-bookworm

FROM ${PYTHON_FULL} AS build
WORKDIR /src

# Debian's packages of a release are not kept: a pinned version is gone one day.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends tini

ARG EXTRAS=""
COPY infra/locks/run.txt infra/locks/
COPY infra/image.sh infra/
RUN infra/image.sh dependencies /opt/inorder "${EXTRAS}"

COPY infra/locks/build.txt infra/locks/
RUN pip install --no-cache-dir --require-hashes -r infra/locks/build.txt

# With --build-arg WHEELS=dist it has the wheels of that folder, such as those of a release.
ARG WHEELS=""
COPY . .
RUN INORDER_COMPILE=all infra/image.sh build python /dist "${WHEELS}" \
    && infra/image.sh install /opt/inorder /dist

FROM ${PYTHON_SLIM}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="inorder" \
      org.opencontainers.image.description="Puts the events of many machines back in order" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN useradd --uid 10001 --user-group --no-log-init --create-home --home-dir /var/lib/inorder inorder
COPY --from=build /opt/inorder /opt/inorder
COPY --from=build /usr/bin/tini-static /usr/bin/tini
COPY LICENSE NOTICE /usr/share/doc/inorder/
ENV PATH=/opt/inorder/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /var/lib/inorder
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "inorder"]
CMD ["--help"]
