// Requests of sandboxes to hosts that no rule lists, which wait for a person's decision. Invariants: requests
// for the same host and port share a question; a question ends once, by a decision, by a change of the rules,
// with its generation, for its time or with those who follow, and all but the first deny unless the rules
// list the host now; a sandbox has a bounded number of questions, open and in an interval. Not here: which
// hosts may be asked about (EgressRules::askable()), who may decide (http/api).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/conversation/types.hpp"
#include "http/egress/egress_parts.hpp"

namespace atl::http {

enum class EgressDecision : std::uint8_t {
    once,    // for the requests that wait
    always,  // as a rule of `network.allow`
    deny,
};
/// The text has static storage.
std::string_view to_string(EgressDecision decision) noexcept;
std::optional<EgressDecision> parse_decision(std::string_view text) noexcept;

class EgressQuestions {
  public:
    using Done = std::function<void(base::Result<void>)>;
    using Asked = std::function<void(base::Result<EgressGrant>)>;
    /// All of them must outlive it.
    struct Ports {
        const base::Clock& clock;
        base::Timers& timers;
        const EgressPolicy& policy;
        /// Tells of a question. False: nobody who could decide hears of it.
        std::function<bool(const std::string& sandbox_id, const conversation::EgressQuestion& question)> tell;
        std::function<void(const std::string& sandbox_id, const std::string& id, std::string_view decision)>
            tell_decision;
        /// Adds a rule to the sandbox's list by the decision of that user, of which review() hears before
        /// `done` is called. Empty: an operator's.
        std::function<void(const std::string& sandbox_id, const std::string& rule,
                           const std::string& by_user_id, Done done)>
            allow;
    };
    explicit EgressQuestions(Ports ports) : ports_(std::move(ports)) {}
    ~EgressQuestions();
    EgressQuestions(const EgressQuestions&) = delete;
    EgressQuestions& operator=(const EgressQuestions&) = delete;

    /// Asks whether a request may go to `target`, and how far. `done` is called once, perhaps from inside the
    /// call, or never if this is destroyed before. Errors: network_not_allowed, whose detail is one line with
    /// the reason.
    void ask(const std::string& sandbox_id, const EgressGrant& target, Asked done);
    /// A person has decided, with a key of that user; empty: without one. `done` as of ask(), with
    /// EgressDecision::always once the rule is committed. What waits reaches no further than a rule of that
    /// key would. Errors: not_found, where no such question is open; network_not_allowed, where the host is
    /// beyond what that key may list: the question stays open; those of Ports::allow: it may have ended
    /// already, since the rules change before the commit.
    void decide(const std::string& sandbox_id, const std::string& id, EgressDecision decision,
                const std::string& user_id, Done done);
    /// The rules of a sandbox have changed: questions about what they list, or what nobody may be asked about
    /// any more, end.
    void review(const std::string& sandbox_id, const EgressRules& rules);
    /// The generation of the sandbox is gone: its questions are denied.
    void end(const std::string& sandbox_id);
    /// Nobody follows its conversation any more: its questions are denied.
    void leave_unattended(const std::string& sandbox_id);

    std::size_t open(const std::string& sandbox_id) const;

  private:
    struct Question {
        EgressGrant target;
        base::TimerId timer = 0;
        std::vector<Asked> waiting;
    };
    struct Asker {
        std::map<std::string, Question> open;  // by id
        std::deque<base::SteadyTime> asked;    // the newest of them
    };

    Question* find(const std::string& sandbox_id, const std::string& id);
    void resolve(const std::string& sandbox_id, const std::string& id, EgressDecision decision,
                 std::string_view why);
    void deny_all(const std::string& sandbox_id, std::string_view why);

    const Ports ports_;
    std::map<std::string, Asker> askers_;  // by sandbox
};

}  // namespace atl::http
