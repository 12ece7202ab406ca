#include "http/egress/egress_report.hpp"

#include <chrono>
#include <utility>

namespace atl::http {

std::string_view to_string(EgressReason reason) noexcept {
    switch (reason) {
        case EgressReason::not_listed:
            return "not_listed";
        case EgressReason::ip_literal:
            return "ip_literal";
        case EgressReason::private_address:
            return "private_address";
        case EgressReason::dns:
            return "dns";
        case EgressReason::sni_mismatch:
            return "sni_mismatch";
        case EgressReason::not_tls:
            return "not_tls";
        case EgressReason::limit:
            return "limit";
        case EgressReason::rule:
            return "rule";
    }
    return "";
}

class EgressReport::CountedStream final : public ByteStream {
  public:
    CountedStream(std::unique_ptr<ByteStream> below, std::shared_ptr<Bytes> bytes)
        : below_(std::move(below)), bytes_(std::move(bytes)) {}
    base::Executor executor() override { return below_->executor(); }
    int native_handle() override { return below_->native_handle(); }
    void async_read_some(std::span<char> room, ReadDone done) override {
        below_->async_read_some(room, [bytes = bytes_, done = std::move(done)](
                                          boost::system::error_code error, std::size_t count) mutable {
            bytes->down += count;
            std::move(done)(error, count);
        });
    }
    void async_wait(Socket::wait_type event, WaitDone done) override {
        below_->async_wait(event, std::move(done));
    }
    std::size_t write_some(std::string_view bytes, boost::system::error_code& error) override {
        const std::size_t count = below_->write_some(bytes, error);
        bytes_->up += count;
        return count;
    }
    void shutdown_send() override { below_->shutdown_send(); }
    void cut() override { below_->cut(); }
    void close() override { below_->close(); }

  private:
    const std::unique_ptr<ByteStream> below_;
    const std::shared_ptr<Bytes> bytes_;
};

EgressReport::EgressReport(std::shared_ptr<EgressReports> to, EgressRequest request,
                           std::shared_ptr<Bytes> bytes)
    : to_(std::move(to)),
      request_(std::move(request)),
      began_(to_ == nullptr ? base::SteadyTime() : to_->now()),
      bytes_(std::move(bytes)),
      before_(*bytes_) {}

EgressReport::EgressReport(std::shared_ptr<EgressReports> to, EgressRequest request)
    : EgressReport(std::move(to), std::move(request), std::make_shared<Bytes>()) {}

EgressReport::~EgressReport() {
    if (to_ == nullptr)
        return;
    end_.bytes_up = bytes_->up - before_.up;
    end_.bytes_down = bytes_->down - before_.down;
    end_.lasted = std::chrono::floor<base::Millis>(to_->now() - began_);
    to_->ended(request_, end_);
}

void EgressReport::about(std::string host, std::uint16_t port) {
    request_.host = std::move(host);
    request_.port = port;
}

void EgressReport::deny(EgressReason reason) {
    if (!end_.denied)
        end_.denied = reason;
}

void EgressReport::refuse(const base::Error& error) {
    using base::Errc;
    switch (error.code()) {
        case Errc::network_not_allowed:
            return deny(base::parse_address(request_.host) ? EgressReason::ip_literal
                                                           : EgressReason::not_listed);
        case Errc::capacity:
        case Errc::user_share:
            return deny(EgressReason::limit);
        default:
            if (!end_.denied && !end_.failed)
                end_.failed = error.code();
    }
}

std::unique_ptr<ByteStream> EgressReport::count(std::unique_ptr<ByteStream> stream) {
    if (to_ == nullptr)
        return stream;
    if (request_.form != EgressForm::tunneled && !std::exchange(end_.was_open, true))
        to_->opened();
    return std::make_unique<CountedStream>(std::move(stream), bytes_);
}

std::shared_ptr<EgressReport> EgressReport::tunneled(std::string_view method) const {
    EgressRequest request = request_;
    request.form = EgressForm::tunneled;
    request.method = method;
    return std::shared_ptr<EgressReport>(new EgressReport(to_, std::move(request), bytes_));
}

EgressLookUp told_look_up(EgressLookUp look_up, std::shared_ptr<EgressReports> to) {
    if (to == nullptr)
        return look_up;
    return [look_up = std::move(look_up), to = std::move(to)](
               const std::string& sandbox_id, const std::string& host,
               std::function<void(base::Result<EgressAddresses>)> done) {
        look_up(sandbox_id, host, [to, done = std::move(done)](base::Result<EgressAddresses> found) {
            to->looked_up(found.has_value());
            done(std::move(found));
        });
    };
}

}  // namespace atl::http
