"""Reads a page of /metrics from stdin with the parser of Prometheus's own client for Python, and holds it to the
conventions (prometheus.io: "Exposition formats", "Metric and label naming"). Prints all samples as one JSON object,
`name{label="value"}` to value. Whatever is wrong is told on stderr, and the exit status is 1."""

import json
import re
import sys

from prometheus_client.parser import text_string_to_metric_families


def series(sample):
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else sample.name


def buckets_are_wrong(samples):
    """True unless the buckets of a histogram family are cumulative, ascending, and ended by +Inf, which is the count."""
    by_labels = {}
    for sample in samples:
        others = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        by_labels.setdefault(others, []).append(sample)
    for group in by_labels.values():
        buckets = [(float(s.labels["le"]), s.value) for s in group if s.name.endswith("_bucket")]
        counts = [s.value for s in group if s.name.endswith("_count")]
        sums = [s.value for s in group if s.name.endswith("_sum")]
        ascending = buckets == sorted(buckets) and [v for _, v in buckets] == sorted(v for _, v in buckets)
        if not (ascending and buckets and buckets[-1][0] == float("inf")):
            return True
        if len(counts) != 1 or len(sums) != 1 or counts[0] != buckets[-1][1]:
            return True
    return False


def complaints(page, families):
    if not page.endswith("\n"):
        yield "the last line has no end"
    for kind in ("HELP", "TYPE"):
        names = re.findall(rf"^# {kind} (\S+)", page, re.M)
        for name in {n for n in names if names.count(n) > 1}:
            yield f"{name} has {kind} twice"
    seen = set()
    for family in families:
        name = family.name
        if not family.documentation:
            yield f"{name} has no help"
        if family.type not in ("counter", "gauge", "histogram"):
            yield f"{name} has the type {family.type}"
        if not name.startswith(("atoll_", "process_")):
            yield f"{name} is not named after this server"
        if not family.samples:
            yield f"{name} has no samples"
        if re.search(r"_(ms|us|ns|kb|mb|percent|milliseconds|microseconds)(_|$)", name):
            yield f"{name} is in no base unit"
        if family.type == "histogram" and (not name.endswith("_seconds") or buckets_are_wrong(family.samples)):
            yield f"{name} is no good histogram"
        for sample in family.samples:
            if family.type == "counter" and not sample.name.endswith("_total"):
                yield f"{sample.name} is a counter and does not end with _total"
            if family.type == "gauge" and sample.name.endswith("_total"):
                yield f"{sample.name} is a gauge and ends with _total"
            if sample.value != sample.value or (family.type != "gauge" and sample.value < 0):
                yield f"{series(sample)} is {sample.value}"
            if series(sample) in seen:
                yield f"{series(sample)} is there twice"
            seen.add(series(sample))


def main():
    page = sys.stdin.read()
    families = list(text_string_to_metric_families(page))
    wrong = list(complaints(page, families))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    print(json.dumps({series(sample): sample.value for family in families for sample in family.samples}))
    return 1 if wrong or not families else 0


if __name__ == "__main__":
    sys.exit(main())
