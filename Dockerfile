# Another base, or one pinned by digest: --build-arg PYTHON_IMAGE=…@sha256:…
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
COPY requirements.txt /
RUN python3 -m venv /opt/vllm-advisor \
    && /opt/vllm-advisor/bin/pip install --no-cache-dir --require-hashes --requirement /requirements.txt \
    && /opt/vllm-advisor/bin/pip uninstall --yes setuptools pip
COPY exporter/vllm_advisor /opt/vllm-advisor/exporter/vllm_advisor
RUN python3 -m compileall -q /opt/vllm-advisor/exporter

FROM ${PYTHON_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vllm-advisor" \
      org.opencontainers.image.description="Prometheus exporter and advisor for vLLM: --max-model-len and --max-num-seqs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --from=build /opt/vllm-advisor /opt/vllm-advisor
RUN install --directory --owner=65532 --group=65532 /var/lib/vllm-advisor
ENV PATH=/opt/vllm-advisor/bin:$PATH \
    PYTHONPATH=/opt/vllm-advisor/exporter \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /var/lib/vllm-advisor
VOLUME /var/lib/vllm-advisor
EXPOSE 10838
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:10838/-/healthy', timeout=4)"]
ENTRYPOINT ["python3", "-m", "vllm_advisor"]
CMD ["serve", "--config.file=/etc/vllm-advisor/advisor.yml"]
