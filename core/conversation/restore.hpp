// Takes over the state in the store, once, at the start of a server. It brings the conversations that ran
// back paused, and gives the sandbox manager those without an owner for removal. Its time is linear in what
// there is to do; nothing here is done or kept for conversations that rest. Internal to core/conversation.
#pragma once

#include "core/base/error.hpp"
#include "core/conversation/residents.hpp"
#include "core/conversation/settings.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

class Restore {
  public:
    Restore(Context& context, Residents& residents) : context_(context), residents_(residents) {}

    /// Errors: storage_failed.
    base::Result<void> run(const StartState& state);

  private:
    void restore_sandboxes(const StartState& state);
    base::Result<void> load(const std::string& id);
    base::Result<void> commit();
    base::Result<void> commit_some();

    Context& context_;
    Residents& residents_;
};

}  // namespace atl::conversation
