/*
 * Checks that say where and what, for the C tests of both libraries. A failed one ends the process at once, whichever
 * thread it is in.
 */
#ifndef FERRIBAND_SAID_H
#define FERRIBAND_SAID_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FAIL(...)                                                             \
	do {                                                                  \
		int saved_errno = errno;                                      \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);               \
		fprintf(stderr, __VA_ARGS__);                                 \
		fprintf(stderr, " (errno %d, %s)\n", saved_errno,             \
			strerror(saved_errno));                               \
		_exit(1);                                                     \
	} while (0)

/* The condition holds. */
#define CHECK(condition)                                                      \
	do {                                                                  \
		if (!(condition))                                             \
			FAIL("%s", #condition);                               \
	} while (0)

/* Two integers are equal. */
#define EQ(got, expected)                                                     \
	do {                                                                  \
		long long got_ = (long long)(got);                            \
		long long expected_ = (long long)(expected);                  \
		if (got_ != expected_)                                        \
			FAIL("%s is %lld, not %lld", #got, got_, expected_);  \
	} while (0)

#endif
