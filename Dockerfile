# The image of all commands, and of Spark's drivers and executors on Kubernetes (docs/deploy.md):
#   docker build --tag moneystate:0.1.0 .

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
# What compiles the core, beside the headers that this Python has. It stays behind in this stage.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY requirements.lock requirements-dev.lock pyproject.toml LICENSE ./
# The locked pip is new enough to take versions and hashes from a constraints file.
RUN sed -n '/^pip==/,/# via/p' requirements-dev.lock >pip.lock && pip install --no-cache-dir --require-hashes --requirement pip.lock
# What a run needs, and apart from it what builds the wheel and compiles the core.
RUN python -m venv --without-pip /opt/moneystate \
    && pip --python /opt/moneystate/bin/python install --no-cache-dir --require-hashes --no-deps --requirement requirements.lock \
    && python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
        print(*p["build-system"]["requires"], *p["tool"]["moneystate"]["compiled"]["requires"], sep="\n")' >build.txt \
    && pip install --no-cache-dir --require-hashes \
        --constraint requirements.lock --constraint requirements-dev.lock --requirement build.txt
COPY moneystate moneystate
COPY services services
COPY state_tools state_tools
COPY avro avro
COPY scripts/build_hook.py scripts/compile_core.py scripts/
RUN pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
    && pip --python /opt/moneystate/bin/python install --no-cache-dir --no-deps --no-index wheels/*.whl

FROM python:3.11-slim-bookworm
# Without versions: Debian's stable release gets security fixes only, and keeps no others.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home moneystate
COPY --from=build /opt/moneystate /opt/moneystate
COPY deploy/entrypoint.sh /opt/entrypoint.sh
ENV PATH=/opt/moneystate/bin:$PATH \
    SPARK_HOME=/opt/moneystate/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/opt/moneystate/bin/python
# A number, so that Kubernetes can tell that it is not root.
USER 10001:10001
# Spark's processes write to the folder in which they start.
WORKDIR /home/moneystate
# tini passes SIGTERM on and collects orphaned processes of Spark.
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/entrypoint.sh"]
CMD ["--help"]
