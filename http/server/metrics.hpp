// The page of `/metrics` in the text format of Prometheus (exposition formats, version 0.0.4): a list of
// metrics, each with where its value is read. Whoever counts does so in numbers of its own, as things happen;
// they are read when the page is asked for and never looked up before, so a metric costs nothing but its
// counting. Not here: which metrics there are (app/metrics.cpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/base/histogram.hpp"

namespace atl::http {

class Metrics {
  public:
    using Labels = std::map<std::string, std::string>;
    /// Reads one value. Runs in a handler of the loop: it takes microseconds.
    using Read = std::function<double()>;
    /// Tells values for as many labels as there are now.
    using Emit = std::function<void(Labels, double)>;
    using ReadMany = std::function<void(const Emit&)>;

    Metrics();
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    // All throw std::logic_error for a name that breaks the rules (prometheus.io, "Metric and label naming"):
    // one name has one kind and one help, a counter's ends with `_total`, and nothing else's does. What is
    // read outlives this object.

    /// A value that does not change while the server runs.
    void constant(const std::string& name, const std::string& help, const Labels& labels, double value);
    void counter(const std::string& name, const std::string& help, Read read);
    void counters(const std::string& name, const std::string& help, ReadMany read);
    void gauge(const std::string& name, const std::string& help, Read read);
    void gauges(const std::string& name, const std::string& help, ReadMany read);
    /// A histogram of durations: `name` ends with `_seconds`. Called once for each value of the labels.
    void histogram(const std::string& name, const std::string& help, const Labels& labels,
                   const base::Histogram& histogram);

    /// The page as of now.
    std::string text() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace atl::http
