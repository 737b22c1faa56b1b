/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines on stderr: lower case, the object first ("rail eth0: ..."), nothing per op below trace. */
#ifndef KVL_BASE_LOG_H
#define KVL_BASE_LOG_H

typedef enum {
    KVL_LOG_FATAL,
    KVL_LOG_ERROR,
    KVL_LOG_WARN,
    KVL_LOG_INFO,
    KVL_LOG_DEBUG,
    KVL_LOG_TRACE
} kvl_log_level_t;

/* the only mutable global of the library; set from KVLANE_LOG_LEVEL (default warn);
 * read and written with relaxed atomics */
extern kvl_log_level_t kvl_log_level;

void kvl_log_write(kvl_log_level_t level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define kvl_log(level, ...)                                                                        \
    ((level) <= __atomic_load_n(&kvl_log_level, __ATOMIC_RELAXED)                                  \
         ? kvl_log_write((level), __FILE__, __LINE__, __VA_ARGS__)                                 \
         : (void)0)
#define kvl_error_log(...) kvl_log(KVL_LOG_ERROR, __VA_ARGS__)
#define kvl_warn(...)      kvl_log(KVL_LOG_WARN, __VA_ARGS__)
#define kvl_info(...)      kvl_log(KVL_LOG_INFO, __VA_ARGS__)
#define kvl_debug(...)     kvl_log(KVL_LOG_DEBUG, __VA_ARGS__)
#define kvl_trace(...)     kvl_log(KVL_LOG_TRACE, __VA_ARGS__)

#endif
