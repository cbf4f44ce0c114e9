# Two stages: wheels are installed in the first, the second holds no build tool, no package installer, no cache and no root.
FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/ohmo
COPY requirements.lock ./
RUN /opt/ohmo/bin/pip install --no-compile --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY ohmo ./ohmo
COPY channels ./channels
RUN python -m venv /opt/build && /opt/build/bin/pip install "hatchling>=1.27,<2" && /opt/build/bin/pip wheel --no-deps --no-build-isolation -w /dist . \
    && /opt/ohmo/bin/pip install --no-compile --no-deps --no-index /dist/ohmo-*.whl \
    && /opt/ohmo/bin/pip uninstall --yes pip setuptools \
    && find /opt/ohmo -name tests -path '*/site-packages/*' -type d -prune -exec rm -rf {} + \
    && find /opt/ohmo \( -name '*.pyi' -o -name '*.a' -o -name '*.pxd' \) -delete \
    && /opt/ohmo/bin/python -m compileall -q -j 0 /opt/ohmo/lib

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 ohmo && install -d -o ohmo -g ohmo -m 700 /home/ohmo/.ohmo /home/ohmo/ohmo-workspace
COPY --from=build /opt/ohmo /opt/ohmo
# OHMO_SERVICE: somebody starts us again, so a hanging event loop ends the process, a crash loop comes up in safe mode, and the log goes to standard error
ENV PATH=/opt/ohmo/bin:$PATH OHMO_HOME=/home/ohmo/.ohmo OHMO_SERVICE=container PYTHONUNBUFFERED=1 OHMO__CONTROL__LISTEN=0.0.0.0:7717
USER 10001:10001
WORKDIR /home/ohmo
VOLUME ["/home/ohmo/.ohmo", "/home/ohmo/ohmo-workspace"]
EXPOSE 7717
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 CMD ["ohmo", "status", "--check", "live"]
ENTRYPOINT ["ohmo"]
CMD ["run"]
