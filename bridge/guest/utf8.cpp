#include "bridge/guest/utf8.hpp"

namespace atl::guest {

void Utf8Repair::feed(std::string_view bytes, std::string& out) {
    out.reserve(out.size() + bytes.size());
    std::size_t i = 0;
    while (i < bytes.size()) {
        if (need_ == 0) {
            const std::size_t run = i;
            while (i < bytes.size() && static_cast<unsigned char>(bytes[i]) < 0x80)
                ++i;
            out.append(bytes.substr(run, i - run));
            if (i < bytes.size())
                begin(static_cast<unsigned char>(bytes[i++]), out);
            continue;
        }
        if (!accepts(static_cast<unsigned char>(bytes[i]))) {
            replace(out);  // the byte itself is looked at again
            continue;
        }
        open_[have_++] = bytes[i++];
        lowest_ = 0x80;
        highest_ = 0xBF;
        if (--need_ == 0)
            out.append(open_.data(), have_);
    }
}

void Utf8Repair::finish(std::string& out) {
    if (need_ != 0)
        replace(out);
}

// Table 3-7 of the Unicode standard: the second byte's range keeps out overlong forms, surrogates and what is
// beyond U+10FFFF.
void Utf8Repair::begin(unsigned char byte, std::string& out) {
    lowest_ = 0x80;
    highest_ = 0xBF;
    if (byte >= 0xC2 && byte <= 0xDF) {
        need_ = 1;
    } else if (byte >= 0xE0 && byte <= 0xEF) {
        need_ = 2;
        if (byte == 0xE0)
            lowest_ = 0xA0;
        if (byte == 0xED)
            highest_ = 0x9F;
    } else if (byte >= 0xF0 && byte <= 0xF4) {
        need_ = 3;
        if (byte == 0xF0)
            lowest_ = 0x90;
        if (byte == 0xF4)
            highest_ = 0x8F;
    } else {
        replace(out);
        return;
    }
    open_[0] = static_cast<char>(byte);
    have_ = 1;
}

void Utf8Repair::replace(std::string& out) {
    out.append("\xEF\xBF\xBD");
    need_ = 0;
    have_ = 0;
}

}  // namespace atl::guest
