/*
 * What the C tests of the connection manager share: checks that say where and what, and the usual steps.
 *
 * The programs include Debian's rdma_cma.h and rdma_verbs.h, so their layouts and inlined functions are the ones tested.
 */
#ifndef FERRIBAND_CM_H
#define FERRIBAND_CM_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../verbs/tests/c/said.h"

/* A call refuses with -1 and this errno. */
#define REFUSED(call, expected)                                               \
	do {                                                                  \
		errno = 0;                                                    \
		EQ(call, -1);                                                 \
		EQ(errno, expected);                                          \
	} while (0)

static inline struct sockaddr_in address(const char *name, int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	EQ(inet_pton(AF_INET, name, &in.sin_addr), 1);
	return in;
}

/* The next event of a channel, which must be this one. */
static inline struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct rdma_cm_event *event = NULL;

	EQ(rdma_get_cm_event(channel, &event), 0);
	CHECK(event);
	if (event->event != kind)
		FAIL("%s (status %d) and not %s", rdma_event_str(event->event), event->status, rdma_event_str(kind));
	return event;
}

static inline void expect_and_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	EQ(rdma_ack_cm_event(expect(channel, kind)), 0);
}

/* Acknowledges an event after a twentieth of a second, in a thread. */
static inline void *ack_late(void *event)
{
	struct timespec pause = { .tv_nsec = 50000000 };

	nanosleep(&pause, NULL);
	EQ(rdma_ack_cm_event(event), 0);
	return NULL;
}

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static inline struct ibv_qp_init_attr attributes(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
}

static inline int state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* A listening identifier on any port of the loopback address. */
static inline struct rdma_cm_id *listener(struct rdma_event_channel *channel, enum rdma_port_space ps, void *context)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	struct rdma_cm_id *id = NULL;

	EQ(rdma_create_id(channel, &id, context, ps), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
	EQ(rdma_listen(id, 3), 0);
	CHECK(rdma_get_src_port(id) != 0);
	return id;
}

/* An identifier with a path to a port of the loopback address. */
static inline struct rdma_cm_id *caller(struct rdma_event_channel *channel, enum rdma_port_space ps, int port,
					void *context)
{
	struct sockaddr_in in = address("127.0.0.1", port);
	struct rdma_cm_id *id = NULL;

	EQ(rdma_create_id(channel, &id, context, ps), 0);
	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000), 0);
	expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EQ(rdma_resolve_route(id, 2000), 0);
	expect_and_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

#endif
