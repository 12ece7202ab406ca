# Writes OUTPUT, a source file that holds the JSON files in FILES (a list of paths) as one array.
# Run as: cmake -DOUTPUT=… -DFILES=… -P embed_recipes.cmake
set(entries "")
set(comma "")
foreach(path IN LISTS FILES)
    file(READ "${path}" text)
    string(APPEND entries "${comma}${text}")
    set(comma ",")
endforeach()
file(WRITE "${OUTPUT}"
"#include \"app/agents_file.hpp\"

namespace atl::app {

std::string_view recipe_texts() noexcept {
    return R\"recipes([${entries}])recipes\";
}

}  // namespace atl::app
")
