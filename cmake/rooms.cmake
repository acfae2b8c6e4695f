# A room of src/ is an object library, ferry_room_ROOM, compiled for speed or for size. What runs once per model takes half the
# space when it is compiled for size; what runs once per element or once per run is compiled for speed.
set(ferry_speed -O2)
set(ferry_size -Os)
# Operators are shapes and checks around a few loops: left alone, a fifth of them is copies of std::vector's code.
set(ferry_operators -O2 "$<$<CXX_COMPILER_ID:GNU>:--param=max-inline-insns-single=20>")

set(ferry_headers_speed src/ops/operator.h)
set(ferry_headers_operators src/ops/operator.h)

# Half of a first build would be spent on reading these again and again. One precompiled header serves all rooms that are
# compiled alike; ccache does better with the plain sources.
function(precompile_headers target kind)
  if(CCACHE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY ferry_precompiled_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
    return()
  endif()
  set_property(GLOBAL PROPERTY ferry_precompiled_${kind} ${target})
  target_precompile_headers(${target} PRIVATE <algorithm> <functional> <map> <memory> <mutex> <optional> <span> <string>
    <unordered_map> <unordered_set> <variant> <vector> src/base/error.h src/graph/model.h ${ferry_headers_${kind}})
endfunction()

function(add_room_library target kind)
  add_library(${target} OBJECT ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  ferry_compile(${target} ${ferry_${kind}})
  precompile_headers(${target} ${kind})
  set_property(GLOBAL APPEND PROPERTY ferry_targets_${kind} ${target})
endfunction()

# add_room(FOLDER speed|size|operators [BUT_SPEED FILE…] [BUT_SIZE FILE…] [WITHOUT FILE…] [SOURCES FILE…]): the room's
# sources, those of its folders among them. Files after BUT_… are compiled the other way, in ferry_room_FOLDER_speed or _size;
# SOURCES are others of its own. All of the room's objects are in ferry_room_FOLDER_OBJECTS, with '_' for '/'.
function(add_room name kind)
  cmake_parse_arguments(PARSE_ARGV 2 room "" "" "BUT_SPEED;BUT_SIZE;WITHOUT;SOURCES")
  set(folder ${PROJECT_SOURCE_DIR}/src/${name})
  string(REPLACE / _ name ${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cc)
  set(objects $<TARGET_OBJECTS:ferry_room_${name}>)
  foreach(part WITHOUT BUT_SPEED BUT_SIZE)
    list(TRANSFORM room_${part} PREPEND ${folder}/)
    foreach(file ${room_${part}})
      if(NOT file IN_LIST sources)
        message(FATAL_ERROR "add_room(${name}): there is no ${file}")
      endif()
    endforeach()
    list(REMOVE_ITEM sources ${room_${part}})
  endforeach()
  add_room_library(ferry_room_${name} ${kind} ${sources} ${room_SOURCES})
  foreach(other speed size)
    string(TOUPPER BUT_${other} part)
    if(room_${part})
      add_room_library(ferry_room_${name}_${other} ${other} ${room_${part}})
      list(APPEND objects $<TARGET_OBJECTS:ferry_room_${name}_${other}>)
    endif()
  endforeach()
  set(ferry_room_${name}_OBJECTS ${objects} PARENT_SCOPE)
endfunction()
