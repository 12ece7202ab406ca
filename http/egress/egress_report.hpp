// A request on the way out of a sandbox as it is reported: whoever answers it says what is known and keeps
// this; how it ended is told once, when this is destroyed. Not here: what becomes of a report
// (egress_recorder.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/egress/egress_parts.hpp"

namespace atl::http {

class EgressReport {
  public:
    /// `to` may be null: then nobody is told.
    EgressReport(std::shared_ptr<EgressReports> to, EgressRequest request);
    ~EgressReport();
    EgressReport(const EgressReport&) = delete;
    EgressReport& operator=(const EgressReport&) = delete;

    /// The target, once it is known.
    void about(std::string host, std::uint16_t port);
    /// It is refused, or cut. The first reason counts.
    void deny(EgressReason reason);
    /// It got this error: a refusal by its code (network_not_allowed: not_listed or ip_literal; capacity
    /// and user_share: limit), else a failure. Does nothing after deny().
    void refuse(const base::Error& error);
    /// It is connected: counts the bytes that pass `stream`, which may outlive this.
    std::unique_ptr<ByteStream> count(std::unique_ptr<ByteStream> stream);
    /// For a request inside this tunnel: reported on its own, with the bytes that pass until its report ends.
    /// A tunnel has one at a time.
    std::shared_ptr<EgressReport> tunneled(std::string_view method) const;

  private:
    struct Bytes {
        std::uint64_t up = 0;
        std::uint64_t down = 0;
    };
    EgressReport(std::shared_ptr<EgressReports> to, EgressRequest request, std::shared_ptr<Bytes> bytes);
    class CountedStream;

    const std::shared_ptr<EgressReports> to_;
    EgressRequest request_;
    EgressEnd end_;
    const base::SteadyTime began_;
    const std::shared_ptr<Bytes> bytes_;  // of a tunnel and of its requests
    const Bytes before_;                  // those of requests before this one
};

/// `look_up`, of which each answer is told. `to` may be null.
EgressLookUp told_look_up(EgressLookUp look_up, std::shared_ptr<EgressReports> to);

}  // namespace atl::http
