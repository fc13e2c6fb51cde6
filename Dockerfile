# The farm in one image: workers that compile C++ and CUDA, and every `celery -A farm` command.
#
#   docker build -t opfarm .
#
# Without a network: put the wheels of deploy/image.lock and setuptools into ./wheels, take a base image that has g++,
# and add   --build-arg WHEELHOUSE=wheels --build-arg PACKAGES=

ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
# A folder of the build context; empty: the package index.
ARG WHEELHOUSE=
WORKDIR /src
COPY . .
RUN set -eu; \
    if [ -n "$WHEELHOUSE" ]; then export PIP_NO_INDEX=1 PIP_FIND_LINKS="/src/$WHEELHOUSE"; fi; \
    python3 -m venv /opt/opfarm; \
    pip="/opt/opfarm/bin/python -m pip install --disable-pip-version-check --no-cache-dir --quiet"; \
    $pip --require-hashes --only-binary :all: -r deploy/image.lock; \
    $pip --no-deps .

FROM ${BASE}
# What the host toolchain compiles with; empty: the base image has it.
ARG PACKAGES=g++
RUN set -eu; \
    if [ -n "$PACKAGES" ]; then \
        apt-get update -qq; \
        apt-get install -y -qq --no-install-recommends $PACKAGES; \
        rm -rf /var/lib/apt/lists/*; \
    fi; \
    useradd --system --uid 10001 --create-home farm; \
    install -d -o farm -g farm /store
COPY --from=build /opt/opfarm /opt/opfarm
ENV PATH=/opt/opfarm/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER farm
WORKDIR /home/farm
# The worker is process 1 and hears the signal itself: it stops its compiles, gives their claims back without counting
# an attempt, and ends within seconds. So Celery's REMAP_SIGTERM, which drops tasks instead, stays unset.
STOPSIGNAL SIGTERM
ENTRYPOINT ["celery", "-A", "farm"]
CMD ["worker", "--loglevel", "INFO"]
