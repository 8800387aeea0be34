# miles on the CPU, as a command:
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" miles audit-groups clips.csv --by accent --out runs/first
# The wheel is made in one stage and installed in another, which holds neither sources nor what built them.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim AS build
WORKDIR /src
# hadolint ignore=DL3013
RUN pip install --no-cache-dir hatchling
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY miles_cli miles_cli
COPY audits audits
COPY probes probes
RUN python -m hatchling build -t wheel -d /dist

FROM python:${PYTHON}-slim
# Extras, such as --build-arg EXTRAS=demo,tables, or none; `demo` keeps torch at a series with a CPU wheel.
ARG EXTRAS=demo,tables
# Where torch for the CPU lies: from the index of packages pip would take a build for CUDA, of gigabytes.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY --from=build /dist /dist
RUN pip install --no-cache-dir --extra-index-url "${TORCH_INDEX}" "$(echo /dist/*.whl)${EXTRAS:+[${EXTRAS}]}" \
 && rm -rf /dist \
 && useradd --create-home --uid 1000 miles \
 && install -d -o miles -g miles /work
# Beside the runs, so that the next container goes on from it; any user may run it, whatever its number.
ENV MILES_CACHE=/work/.miles-cache HOME=/tmp USER=miles HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
USER 1000
WORKDIR /work
ENTRYPOINT ["miles"]
CMD ["--help"]
