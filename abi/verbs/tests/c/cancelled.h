/*
 * A thread that is cancelled inside a call. Each program tries its calls in three ways:
 *
 * ASLEEP    the call sleeps when the cancellation comes: the thread ends in it
 * PENDING   the cancellation came before the call: the thread ends at its beginning
 * DISABLED  the thread has disabled cancellation: the call goes on, and returns as if nothing had been asked for
 */
#ifndef FERRIBAND_CANCELLED_H
#define FERRIBAND_CANCELLED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "said.h"

enum cancel_way { ASLEEP, PENDING, DISABLED };

struct cancelled {
	/* the call, and what it works on */
	void (*call)(void *);
	void *on;
	enum cancel_way way;
	pthread_t thread;
	atomic_int tid, returned, cleaned, asked;
};

static inline void cancelled_cleanup(void *argument)
{
	struct cancelled *one = argument;

	one->cleaned++;
}

static inline void *cancelled_body(void *argument)
{
	struct cancelled *one = argument;
	int old = -1;

	pthread_cleanup_push(cancelled_cleanup, one);
	if (one->way != ASLEEP)
		CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
	one->tid = (int)syscall(SYS_gettid);
	if (one->way == PENDING) {
		while (!one->asked)
			usleep(1000);
		CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
	}
	one->call(one->on);
	one->returned = 1;
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0);
	/* the call leaves the state as it was */
	EQ(old, one->way == DISABLED ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

/* The thread sleeps in a system call, and does not only pass through one. */
static inline void cancelled_asleep(int tid)
{
	char path[64], state;
	int seen = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	for (int tries = 0; seen < 5; tries++) {
		FILE *stat = fopen(path, "r");

		CHECK(stat);
		CHECK(fscanf(stat, "%*d %*s %c", &state) == 1);
		fclose(stat);
		seen = state == 'S' ? seen + 1 : 0;
		CHECK(tries < 5000);
		usleep(2000);
	}
}

/* Starts a thread in the call and cancels it. */
static inline void cancelled_start(struct cancelled *one, void (*call)(void *), void *on, enum cancel_way way)
{
	*one = (struct cancelled){ .call = call, .on = on, .way = way };
	CHECK(pthread_create(&one->thread, NULL, cancelled_body, one) == 0);
	while (!one->tid)
		usleep(1000);
	if (way != PENDING)
		cancelled_asleep(one->tid);
	CHECK(pthread_cancel(one->thread) == 0);
	one->asked = 1;
	if (way == DISABLED) {
		usleep(20000);
		EQ(one->returned, 0);
	}
}

/* The thread has ended as it should. */
static inline void cancelled_end(struct cancelled *one)
{
	void *value = NULL;

	CHECK(pthread_join(one->thread, &value) == 0);
	CHECK(value == PTHREAD_CANCELED);
	EQ(one->cleaned, 1);
	EQ(one->returned, one->way == DISABLED);
}

/* A thread that ends in the call. */
static inline void cancelled_in(void (*call)(void *), void *on, enum cancel_way way)
{
	struct cancelled one;

	cancelled_start(&one, call, on, way);
	cancelled_end(&one);
}

#endif
