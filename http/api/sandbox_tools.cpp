#include "http/api/sandbox_tools.hpp"

#include <algorithm>
#include <utility>

#include "core/base/execution_limits.hpp"
#include "core/conversation/end_cause.hpp"
#include "core/execution/json_depth.hpp"
#include "core/sandbox/operations.hpp"
#include "http/api/run_command.hpp"
#include "http/api/tool_formats.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using base::Result;

/// The state of a call. finish() keeps it until its callback has returned, even without its HostedCall.
class ToolCallState final : public std::enable_shared_from_this<ToolCallState>,
                            private sandbox::CallObserver {
  public:
    ToolCallState(conversation::Manager& conversations, base::Budget& exec, base::ShareHolder holder,
                  std::function<void(Result<std::string>)> done)
        : conversations_(conversations), exec_(exec), holder_(std::move(holder)), done_(std::move(done)) {}

    /// `args` is the text of an object.
    void begin(const std::string& sandbox_id, const base::ToolSpec& tool, std::string args) {
        tool_ = &tool;
        args_ = std::move(args);
        conversations_.lease(sandbox_id, conversation::LeaseUse::request,
                             [self = weak_from_this()](Result<std::unique_ptr<conversation::Lease>> lease) {
                                 if (const auto it = self.lock())
                                     it->on_lease(std::move(lease));
                             });
    }
    void cancel() {
        done_ = nullptr;
        give_back();
    }

  private:
    void on_lease(Result<std::unique_ptr<conversation::Lease>> lease) {
        if (!done_)
            return;
        if (lease.has_error())
            return finish(lease.error());
        lease_ = std::move(*lease);
        if (!lease_->is_held())
            return finish(lease_->why());
        cause_.emplace(*lease_, conversations_.timers(), [this](const Error& why) { finish(why); });
        sandbox::Operations* const operations = conversations_.operations(*lease_);
        if (operations == nullptr)
            return finish(conversations_.end_of(*lease_));
        if (tool_->effect == base::ToolSpec::Effect::runs)
            return run_command(*operations);
        sandbox::CallSpec spec;
        spec.command = "tool";  // the guest's word (bridge/protocol.hpp)
        spec.members.append("\"name\":\"").append(tool_->name).append("\",\"args\":").append(args_);
        if (conversations_.tools(*lease_).read_before_edit)
            spec.members += ",\"readBeforeEdit\":true";
        call_ = operations->call(spec, *this);
    }
    void run_command(sandbox::Operations& operations) {
        const auto args = parse_json(args_);
        if (args.has_error())
            return finish(args.error());
        CommandForm form;
        if (auto refused = read_command(*args, conversations_.tools(*lease_), form))
            return finish(std::move(*refused));
        auto share = exec_.take(holder_, RunCommand::k_kept_bytes);
        if (share.has_error())
            return finish(share.error());
        call_ = std::make_unique<RunCommand>(std::move(form), std::move(*share), operations,
                                             static_cast<sandbox::CallObserver&>(*this),
                                             conversations_.clock(), conversations_.timers());
    }
    void on_reply(std::string_view json) override { tell_changes(json); }
    void on_bytes(std::string_view bytes) override {
        is_too_long_ = is_too_long_ || text_.size() + bytes.size() > base::k_max_execution_value_bytes;
        if (!is_too_long_)
            text_.append(bytes);
    }
    void on_end() override {
        if (is_too_long_)
            finish(Error(Errc::invalid_field, "the tool's result is longer than 1 MiB; ask for less"));
        else
            finish(std::move(text_));
    }
    void on_failed(const Error& error) override { cause_->met(error); }

    /// The conversation's log hears what the guest says that it changed.
    void tell_changes(std::string_view reply) {
        const auto parsed = parse_json(reply);
        const auto files =
            parsed.has_value() && parsed->is_object() ? parsed->find("changedFiles") : Json::const_iterator();
        if (parsed.has_error() || !parsed->is_object() || files == parsed->end() || !files->is_array())
            return;
        conversation::FileChange change;
        for (const Json& file : *files) {
            if (file.is_string())
                change.paths.push_back(file.get<std::string>());
        }
        if (!change.paths.empty())
            conversations_.files_changed(lease_->sandbox_id(), change);
    }
    // May be called by what it destroys: that goes later.
    void finish(Result<std::string> result) {
        const auto done = std::exchange(done_, nullptr);
        const auto self = shared_from_this();
        conversations_.timers().defer([self] { self->give_back(); });
        if (done)
            done(std::move(result));
    }
    void give_back() {
        call_.reset();
        cause_.reset();
        lease_.reset();
    }

    conversation::Manager& conversations_;
    base::Budget& exec_;
    const base::ShareHolder holder_;
    std::function<void(Result<std::string>)> done_;
    const base::ToolSpec* tool_ = nullptr;
    std::string args_;
    std::unique_ptr<conversation::Lease> lease_;
    std::optional<conversation::EndCause> cause_;  // as long as the lease
    std::unique_ptr<sandbox::Call> call_;
    std::string text_;
    bool is_too_long_ = false;
};

class SandboxToolCall final : public execution::HostedCall {
  public:
    explicit SandboxToolCall(std::shared_ptr<ToolCallState> state) : state_(std::move(state)) {}
    ~SandboxToolCall() override { state_->cancel(); }

  private:
    std::shared_ptr<ToolCallState> state_;
};

}  // namespace

bool SandboxToolHost::has(std::string_view tool) const {
    return std::find(names_.begin(), names_.end(), tool) != names_.end();
}

std::unique_ptr<execution::HostedCall> SandboxToolHost::call(
    const std::string& tool, const std::string& args_json,
    std::function<void(base::Result<std::string>)> done) {
    // The arguments fit the schema of an object: there is one, or none at all. They may be long: they are cut
    // out, not parsed again.
    std::string_view object = args_json;
    object = object.size() > 2 ? object.substr(1, object.size() - 2) : "{}";
    if (!execution::is_one_object(object))
        object = "{}";
    auto state = std::make_shared<ToolCallState>(conversations_, exec_, holder_, std::move(done));
    state->begin(sandbox_id_, *base::find_tool(tool), std::string(object));
    return std::make_unique<SandboxToolCall>(std::move(state));
}

std::vector<execution::ToolSpec> SandboxToolHost::specs(const std::vector<std::string>& names,
                                                        std::vector<execution::ToolSpec> tools) {
    std::vector<execution::ToolSpec> specs;
    for (const std::string& name : names) {
        const base::ToolSpec& tool = *base::find_tool(name);
        execution::ToolSpec& spec = specs.emplace_back();
        spec.name = name;
        spec.description = tool.means;
        spec.schema_json = tool_schema(tool).dump();
    }
    for (execution::ToolSpec& tool : tools) {
        const auto own_end = specs.begin() + static_cast<std::ptrdiff_t>(names.size());
        const auto own =
            std::find_if(specs.begin(), own_end, [&](const auto& spec) { return spec.name == tool.name; });
        if (own == own_end)
            specs.push_back(std::move(tool));
        else
            own->policy = execution::stronger(own->policy, tool.policy);
    }
    return specs;
}

}  // namespace atl::http
