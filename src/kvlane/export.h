/* SPDX-License-Identifier: BSD-3-Clause */
/** @file export.h Marks what libkvlane.so exports. */
#ifndef KVLANE_EXPORT_H
#define KVLANE_EXPORT_H

#if defined(__GNUC__)
#define KVL_API __attribute__((visibility("default")))
#else
#define KVL_API
#endif

#endif
