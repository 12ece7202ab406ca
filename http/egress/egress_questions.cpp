#include "http/egress/egress_questions.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/ids.hpp"
#include "core/plain/egress_limits.hpp"
#include "http/egress/egress_flow.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::array k_decisions{EgressDecision::once, EgressDecision::always, EgressDecision::deny};

Error not_granted(const EgressGrant& target, std::string_view why) {
    return Error(Errc::network_not_allowed,
                 egress_authority(target, 0) +
                     " is not allowed: no rule of `network.allow` matches it, and " + std::string(why));
}

}  // namespace

std::string_view to_string(EgressDecision decision) noexcept {
    switch (decision) {
        case EgressDecision::once:
            return "once";
        case EgressDecision::always:
            return "always";
        case EgressDecision::deny:
            break;
    }
    return "deny";
}

std::optional<EgressDecision> parse_decision(std::string_view text) noexcept {
    for (const EgressDecision decision : k_decisions) {
        if (to_string(decision) == text)
            return decision;
    }
    return std::nullopt;
}

EgressQuestions::~EgressQuestions() {
    for (const auto& [sandbox_id, asker] : askers_) {
        for (const auto& [id, question] : asker.open)
            ports_.timers.cancel(question.timer);
    }
}

void EgressQuestions::ask(const std::string& sandbox_id, const EgressGrant& target, Asked done) {
    Asker& asker = askers_[sandbox_id];
    for (auto& [id, question] : asker.open) {
        if (question.target.host == target.host && question.target.port == target.port) {
            if (question.waiting.size() == base::k_max_egress_question_waiters)
                return done(not_granted(target, "too many requests wait for the decision on it"));
            question.waiting.push_back(std::move(done));
            return;
        }
    }
    if (asker.open.size() == base::k_max_open_egress_questions)
        return done(not_granted(target, "too many questions about other hosts are open"));
    const base::SteadyTime now = ports_.clock.steady_now();
    while (!asker.asked.empty() && now - asker.asked.front() >= base::k_egress_question_interval)
        asker.asked.pop_front();
    if (asker.asked.size() == base::k_max_egress_questions)
        return done(not_granted(target, "too many questions were asked in the last minute"));
    const std::string id = base::new_id();
    if (!ports_.tell(sandbox_id, conversation::EgressQuestion{id, target.host, target.port}))
        return done(not_granted(target, "nobody follows the conversation who could decide"));
    asker.asked.push_back(now);
    Question& question = asker.open[id];
    question.target = target;
    question.waiting.push_back(std::move(done));
    question.timer = ports_.timers.arm(base::k_egress_question_time, [this, sandbox_id, id] {
        resolve(sandbox_id, id, EgressDecision::deny, "nobody has decided in time");
    });
}

void EgressQuestions::decide(const std::string& sandbox_id, const std::string& id, EgressDecision decision,
                             const std::string& user_id, Done done) {
    Question* const question = find(sandbox_id, id);
    if (question == nullptr)
        return done(Error(Errc::not_found,
                          "No question of this id is open: it was decided, or its time of 60 s is over."));
    if (decision == EgressDecision::deny) {
        resolve(sandbox_id, id, decision, "it was denied");
        return done({});
    }
    const std::string rule = egress_authority(question->target, 0);
    sandbox::EgressSettings listed;
    listed.allow = {rule};
    listed.user_id = user_id;
    if (const auto may = ports_.policy.check(listed); may.has_error())
        return done(Error(may.error().code(), may.error().detail()));
    const auto granted = ports_.policy.rules(listed)->check(rule, 0);
    if (granted.has_error())
        return done(granted.error());
    question->target.beyond_public = question->target.beyond_public && granted->beyond_public;
    if (decision == EgressDecision::once) {
        resolve(sandbox_id, id, decision, "");
        return done({});
    }
    ports_.allow(sandbox_id, rule, user_id, std::move(done));
}

void EgressQuestions::review(const std::string& sandbox_id, const EgressRules& rules) {
    const auto found = askers_.find(sandbox_id);
    if (found == askers_.end())
        return;
    std::vector<std::pair<std::string, EgressDecision>> ended;
    for (const auto& [id, question] : found->second.open) {
        const std::string authority = egress_authority(question.target, 0);
        if (rules.check(authority, 0).has_value())
            ended.emplace_back(id, EgressDecision::always);
        else if (!rules.askable(authority, 0))
            ended.emplace_back(id, EgressDecision::deny);
    }
    for (const auto& [id, decision] : ended)
        resolve(sandbox_id, id, decision, "the rules have changed");
}

void EgressQuestions::end(const std::string& sandbox_id) {
    deny_all(sandbox_id, "the sandbox has ended");
    askers_.erase(sandbox_id);
}

void EgressQuestions::leave_unattended(const std::string& sandbox_id) {
    deny_all(sandbox_id, "nobody follows the conversation any more");
}

void EgressQuestions::deny_all(const std::string& sandbox_id, std::string_view why) {
    while (open(sandbox_id) != 0) {
        const std::string id = askers_.at(sandbox_id).open.begin()->first;
        resolve(sandbox_id, id, EgressDecision::deny, why);
    }
}

std::size_t EgressQuestions::open(const std::string& sandbox_id) const {
    const auto found = askers_.find(sandbox_id);
    return found == askers_.end() ? 0 : found->second.open.size();
}

EgressQuestions::Question* EgressQuestions::find(const std::string& sandbox_id, const std::string& id) {
    const auto asker = askers_.find(sandbox_id);
    if (asker == askers_.end())
        return nullptr;
    const auto question = asker->second.open.find(id);
    return question == asker->second.open.end() ? nullptr : &question->second;
}

void EgressQuestions::resolve(const std::string& sandbox_id, const std::string& id, EgressDecision decision,
                              std::string_view why) {
    auto& open = askers_.at(sandbox_id).open;
    const auto found = open.find(id);
    const Question question = std::move(found->second);
    open.erase(found);
    ports_.timers.cancel(question.timer);
    ports_.tell_decision(sandbox_id, id, to_string(decision));
    for (const Asked& done : question.waiting) {
        if (decision == EgressDecision::deny)
            done(not_granted(question.target, why));
        else
            done(question.target);
    }
}

}  // namespace atl::http
