// The service of previews: what listens inside a sandbox, at a host name of its own or at a port of this
// machine. Looks the sandbox up, admits a request by the settings of its preview, and relays. Where nothing
// answers, a browser that navigates gets a page that tries again, everything else a problem. Nothing starts a
// sandbox but the wake that its settings allow. Not here: which fields pass (heads.hpp), the bytes
// (exchange.hpp), what counts as activity (preview_visits.hpp).
#pragma once

#include <memory>
#include <optional>

#include "core/conversation/manager.hpp"
#include "core/plain/preview_limits.hpp"
#include "http/access/client_address.hpp"
#include "http/access/client_limits.hpp"
#include "http/proxy/open_previews.hpp"
#include "http/proxy/preview_names.hpp"
#include "http/proxy/preview_passes.hpp"
#include "http/proxy/preview_visits.hpp"
#include "http/proxy/preview_waker.hpp"
#include "http/proxy/upstream_pool.hpp"
#include "http/server/limit_log.hpp"
#include "http/server/service.hpp"

namespace atl::http {

struct PreviewSettings {
    std::optional<PreviewNames> names;  // none: each sandbox has a port of this machine
    TrustedProxies trusted_proxies;     // whose X-Forwarded fields count
    PreviewWaker::Bounds wakes{base::k_preview_wakes_per_minute};
    std::vector<std::string> allowed_origins{};  // pages of other sites that may ask for private previews
    LimitSettings limits{};  // of an address: its connections, and how often it may be refused
    /// Without `names`: those of the ports that have no port of this machine; none: nothing shows these.
    std::optional<PreviewNames> port_names{};
};

class PreviewService final : public Service {
  public:
    /// Who is known to the API: its keys do not go inside, its tokens open private previews.
    struct Known {
        const Authenticator& keys;
        const StreamTokens& tokens;
    };
    /// `conversations` and `known` must outlive it.
    PreviewService(PreviewSettings settings, conversation::Manager& conversations,
                   std::shared_ptr<UpstreamPool> upstreams, Known known);
    ~PreviewService() override;

    base::Result<CountLimiter::Lease> connect(const PeerAddress& peer) override;
    Decision admit(RequestContext& context, const Arrival& arrival) override;
    /// A problem, or a page for a browser that navigates. Most refusals count for the client's address.
    Response refuse(const RequestContext& context, const base::Error& error) override;
    /// The same; the peer is the client, since nobody else is known.
    Response refuse_unread(RequestContext& context, const Arrival& arrival,
                           const base::Error& error) override;
    void complete(const Request& request, Response& response) override;
    void sent(const Request& request, const Response& response) override;
    const base::Budget& wakes() const noexcept { return waker_.wakes(); }
    const base::Budget& wake_tries() const noexcept { return waker_.tries(); }

  private:
    /// refuse() of a request to that port, if it came so far.
    Response refuse_at(const RequestContext& context, const base::Error& error,
                       std::optional<std::uint16_t> port);
    base::Result<void> charge(const Client& client);
    base::Result<PreviewName> name_of(std::string_view authority) const;
    bool is_own_origin(std::string_view origin, const RequestContext& context,
                       const std::string& sandbox_id) const;
    base::Result<void> check_origin(const RequestContext& context, const std::string& sandbox_id) const;
    bool must_forget(const Request& request) const;
    void was_told_to_forget(const Request& request);
    base::Task<base::Result<Response>> async_answer(RequestContext& context);
    base::Task<base::Result<void>> async_wake(RequestContext& context, const std::string& sandbox_id);
    base::Result<Response> answer_now(const RequestContext& context, const PreviewName& name,
                                      const conversation::PreviewView& view);
    Response relay(const RequestContext& context, OpenPreviews::Visit visit,
                   const conversation::PreviewView& view);
    bool is_up(const std::string& sandbox_id) const;
    bool is_port_name(std::string_view authority) const;
    sandbox::PreviewSettings shown_here(sandbox::PreviewSettings settings) const;

    PreviewSettings settings_;
    conversation::Manager& conversations_;
    std::shared_ptr<UpstreamPool> upstreams_;
    const Authenticator& keys_;
    // Not those of the API: a page of a preview must not use up what its visitor has there.
    ClientLimits limits_;
    LimitLog limit_log_;
    PreviewPasses passes_;
    PreviewWaker waker_;
    PreviewVisits visits_;
    OpenPreviews open_;
    std::uint64_t changes_ = 0;  // of what previews show
    const Handler handler_;
};

}  // namespace atl::http
