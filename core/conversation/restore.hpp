// Takes over what the store remembers, once, at the start of a server: makes up for records that the last
// server did not get to, brings conversations back paused, gives sandboxes without an owner to the sandbox
// manager for removal. Linear in what there is. Internal to core/conversation.
#pragma once

#include "core/base/error.hpp"
#include "core/conversation/settings.hpp"
#include "core/conversation/store.hpp"

namespace atl::conversation {

class Conversation;

class Restore {
  public:
    /// What the registry does with what was found.
    class Target {
      public:
        virtual void restore_sandbox(const sandbox::Record& record) = 0;
        /// Keeps it from now on.
        virtual Conversation& restore_conversation(Record record, sandbox::Record sandbox_record) = 0;

      protected:
        ~Target() = default;
    };

    Restore(Context& context, Target& target) : context_(context), target_(target) {}

    /// Errors: storage_failed.
    base::Result<void> run(Snapshot snapshot);

  private:
    base::Result<void> commit();
    base::Result<void> commit_some();
    base::Result<void> record_turns(Snapshot& snapshot);
    void restore_sandboxes(const Snapshot& snapshot);
    void restore_conversation(Record record, sandbox::Record sandbox_record, const Snapshot& snapshot);

    Context& context_;
    Target& target_;
};

}  // namespace atl::conversation
