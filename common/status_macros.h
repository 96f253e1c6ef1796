// Early return on a bad status, for functions and (CO_) for coroutines.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ANCHORAGE_CONCAT_INNER(a, b) a##b
#define ANCHORAGE_CONCAT(a, b) ANCHORAGE_CONCAT_INNER(a, b)

#define ANCHORAGE_RETURN_IF_ERROR_IMPL(keyword, expr)                  \
  do {                                                                 \
    if (absl::Status status_ = (expr); !status_.ok()) keyword status_; \
  } while (false)

#define ANCHORAGE_ASSIGN_OR_RETURN_IMPL(keyword, value, lhs, expr) \
  auto value = (expr);                                             \
  if (!value.ok()) keyword value.status();                         \
  lhs = *std::move(value)

#define RETURN_IF_ERROR(expr) ANCHORAGE_RETURN_IF_ERROR_IMPL(return, expr)
#define CO_RETURN_IF_ERROR(expr) ANCHORAGE_RETURN_IF_ERROR_IMPL(co_return, expr)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ANCHORAGE_ASSIGN_OR_RETURN_IMPL(return, ANCHORAGE_CONCAT(value_or_, __LINE__), lhs, expr)
#define CO_ASSIGN_OR_RETURN(lhs, expr) \
  ANCHORAGE_ASSIGN_OR_RETURN_IMPL(co_return, ANCHORAGE_CONCAT(value_or_, __LINE__), lhs, expr)
