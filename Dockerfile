# An image of the server, with its data in /data: docker build -t localhost/atoll .
# docs/operations/containers.md says with which flags to run it, and what each is for.
FROM debian:12 AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /src
COPY . .
RUN apt-get update && scripts/run --version && cd build/release/bin \
    && install -D -t /out/lib/atoll atoll{d,-guest,-agent,-helper,-zygote,-checker} \
    && install -D -m 644 -t /out/lib/atoll/engines/runner engines/runner/* \
    && ldd atolld atoll-helper atoll-zygote atoll-checker | awk '$3 ~ "^/" && !/libc[.]so|libm[.]so/ { print $3 }' | sort -u \
    | xargs cp -L -t /out/lib

FROM debian:12
COPY --from=build /out /usr/local
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap uidmap ripgrep python3 ca-certificates \
    && rm -rf /var/lib/apt/lists/* && ldconfig && ln -s /usr/local/lib/atoll/atolld /usr/local/bin/atolld \
    && useradd --uid 1000 --home-dir /data --no-create-home atoll && install -d -o 1000 -g 1000 -m 700 /data
USER 1000
VOLUME /data
EXPOSE 4100
CMD ["atolld", "--listen", "0.0.0.0:4100", "--data-dir", "/data", "--preview-domain", "localhost"]
