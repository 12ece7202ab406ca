// The processes of a conversation that are started again in each generation of its sandbox, as a part of it:
// at most base::k_max_kept_processes, in the store with all that is needed to start them. Each start has an
// id of its own, which replaces the one before in the store, too. A process that ends by itself stays; a
// process that is forgotten does not come back. A process that cannot be started again changes nothing of the
// generation: the sandbox's log says so. Internal to core/conversation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/conversation/requests.hpp"
#include "core/conversation/settings.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

class RestartedProcesses {
  public:
    /// `conversation` is read at each call; `written` is called after each write to the journal.
    RestartedProcesses(Context& context, const Record& conversation, std::function<void()> written);
    ~RestartedProcesses() { *self_ = nullptr; }
    RestartedProcesses(const RestartedProcesses&) = delete;
    RestartedProcesses& operator=(const RestartedProcesses&) = delete;

    void restore(const std::vector<RestartedProcess>& stored);
    /// Starts another one in the living generation. Calls `reply` once, from the loop, with its pid, when it
    /// runs and is committed. Errors: too_many_kept_processes, sandbox_gone, those of
    /// sandbox::Operations::start_process(); then nothing is kept.
    void start(sandbox::ProcessSpec spec, Reply<pid_t> reply);
    /// Starts all that are kept, in a generation that has none of them.
    void start_all();
    /// The generation has ended, and the starts that were under way with it.
    void end_generation();
    /// Returns false where none of that id is kept.
    bool forget(const std::string& id);
    void forget_all();
    /// The processes that have been started once, in the order of their first starts.
    std::vector<sandbox::ProcessSpec> list() const;

  private:
    struct Entry {
        RestartedProcess process;
        std::unique_ptr<sandbox::Question> question;  // while it is being started
        Reply<pid_t> reply;                           // the first start's, until that is over
    };

    Entry* find(std::uint32_t number);
    void launch(Entry& entry);
    void on_launched(std::uint32_t number, const base::Result<pid_t>& started);
    void warn(const Entry& entry, const base::Error& why);
    void write(Write write);
    template <class T>
    void refuse(const T& reply, base::Error error);

    Context& context_;
    const Record& conversation_;
    std::function<void()> written_;
    std::vector<Entry> entries_;
    std::uint32_t last_number_ = 0;
    std::shared_ptr<RestartedProcesses*> self_;  // null inside once it is destroyed
};

}  // namespace atl::conversation
