#include "http/server/metrics.hpp"

#include <prometheus/check_names.h>
#include <prometheus/collectable.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace atl::http {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

double seconds_of(std::chrono::nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
}

ClientMetric labelled(const Metrics::Labels& labels) {
    ClientMetric metric;
    for (const auto& [name, value] : labels)
        metric.label.push_back({name, value});
    return metric;
}

ClientMetric::Histogram as_cumulative(const base::Histogram& histogram) {
    ClientMetric::Histogram out;
    out.sample_count = histogram.count();
    out.sample_sum = seconds_of(histogram.sum());
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < histogram.upper_bounds().size(); ++i) {
        below += histogram.counts()[i];
        out.bucket.push_back({below, seconds_of(histogram.upper_bounds()[i])});
    }
    out.bucket.push_back({histogram.count(), std::numeric_limits<double>::infinity()});
    return out;
}

/// A metric that is read when it is collected.
struct Family {
    std::string name;
    std::string help;
    MetricType type;
    Metrics::ReadMany read;  // not of a histogram
    std::vector<std::pair<Metrics::Labels, const base::Histogram*>> histograms;

    MetricFamily collected() const {
        MetricFamily out{name, help, type, {}};
        for (const auto& [labels, histogram] : histograms) {
            out.metric.push_back(labelled(labels));
            out.metric.back().histogram = as_cumulative(*histogram);
        }
        if (!read)
            return out;
        read([&](const Metrics::Labels& labels, double value) {
            ClientMetric metric = labelled(labels);
            if (type == MetricType::Counter)
                metric.counter.value = value;
            else
                metric.gauge.value = value;
            out.metric.push_back(std::move(metric));
        });
        return out;
    }
};

}  // namespace

// Constants are in a registry of the library; what moves is counted where it happens, in plain integers of
// the one thread, and only read here.
struct Metrics::Impl : prometheus::Collectable {
    prometheus::Registry constants;
    std::map<std::string, std::string> helps_of_constants;
    std::vector<Family> families;

    std::vector<MetricFamily> Collect() const override {
        auto all = constants.Collect();
        for (const Family& family : families) {
            if (auto collected = family.collected(); !collected.metric.empty())
                all.push_back(std::move(collected));
        }
        return all;
    }

    void check(const std::string& name, const std::string& help, MetricType type) const {
        const bool is_total = name.ends_with("_total");
        if (!prometheus::CheckMetricName(name) || help.empty() || is_total != (type == MetricType::Counter) ||
            (type == MetricType::Histogram && !name.ends_with("_seconds")))
            throw std::logic_error("no good name or help for a metric: " + name);
        for (const Family& family : families) {
            if (family.name == name)
                throw std::logic_error("a metric given twice: " + name);
        }
    }

    void add(Family family) {
        check(family.name, family.help, family.type);
        if (helps_of_constants.contains(family.name))
            throw std::logic_error("a metric given twice: " + family.name);
        families.push_back(std::move(family));
    }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::constant(const std::string& name, const std::string& help, const Labels& labels, double value) {
    const auto known = impl_->helps_of_constants.emplace(name, help).first;
    if (known->second != help)
        throw std::logic_error("a metric with two helps: " + name);
    impl_->check(name, help, MetricType::Gauge);
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(impl_->constants);
    family.Add(labels).Set(value);
}

void Metrics::counter(const std::string& name, const std::string& help, Read read) {
    counters(name, help, [read = std::move(read)](const Emit& emit) { emit({}, read()); });
}

void Metrics::counters(const std::string& name, const std::string& help, ReadMany read) {
    impl_->add({name, help, MetricType::Counter, std::move(read), {}});
}

void Metrics::gauge(const std::string& name, const std::string& help, Read read) {
    gauges(name, help, [read = std::move(read)](const Emit& emit) { emit({}, read()); });
}

void Metrics::gauges(const std::string& name, const std::string& help, ReadMany read) {
    impl_->add({name, help, MetricType::Gauge, std::move(read), {}});
}

void Metrics::histogram(const std::string& name, const std::string& help, const Labels& labels,
                        const base::Histogram& histogram) {
    for (Family& family : impl_->families) {
        if (family.name != name || family.type != MetricType::Histogram)
            continue;
        for (const auto& [others, ignored] : family.histograms) {
            if (others == labels || family.help != help)
                throw std::logic_error("a metric given twice: " + name);
        }
        family.histograms.emplace_back(labels, &histogram);
        return;
    }
    impl_->add({name, help, MetricType::Histogram, {}, {{labels, &histogram}}});
}

std::string Metrics::text() const {
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, impl_->Collect());
    return std::move(out).str();
}

}  // namespace atl::http
