/*
 * Many connections between two processes: how long one takes while so many others stand, and what those cost that do nothing.
 *
 *   many server ADDRESS PORT COUNT            accepts COUNT connections, waits for their end
 *   many client ADDRESS PORT COUNT MEASURED   makes COUNT connections, the last MEASURED of them with the watch in hand
 *
 * The client prints one line: connections, microseconds of a new one (median, 99th percentile, longest), and the milliseconds of
 * processor time that it has used within a second in which all of them were idle; the server the last of these.
 */
#include "cm.h"

#include <poll.h>
#include <sys/resource.h>

static double used_ms(void)
{
	struct rusage use;

	EQ(getrusage(RUSAGE_SELF, &use), 0);
	return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-3;
}

static double idle_ms(void)
{
	struct timespec second = { .tv_sec = 1 }, settle = { .tv_nsec = 200000000 };

	nanosleep(&settle, NULL);
	double before = used_ms();

	nanosleep(&second, NULL);
	return used_ms() - before;
}

/* One completion queue for all, as a program with many connections has it. */
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void give_pair(struct rdma_cm_id *id, int count)
{
	if (!pd) {
		CHECK(pd = ibv_alloc_pd(id->verbs));
		CHECK(cq = ibv_create_cq(id->verbs, 2 * count, NULL, NULL, 0));
	}
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);

	attr.send_cq = attr.recv_cq = cq;
	EQ(rdma_create_qp(id, pd, &attr), 0);
}

static struct sockaddr_in where(char **words)
{
	return address(words[0], atoi(words[1]));
}

static void server(char **words)
{
	struct sockaddr_in in = where(words);
	int count = atoi(words[2]), established = 0, ended = 0;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listening, **ids = calloc(count, sizeof(*ids));
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	int accepted = 0;

	CHECK(channel && ids);
	EQ(rdma_create_id(channel, &listening, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_bind_addr(listening, (struct sockaddr *)&in), 0);
	EQ(rdma_listen(listening, count), 0);
	while (ended < count) {
		struct rdma_cm_event *event = NULL;

		EQ(rdma_get_cm_event(channel, &event), 0);
		enum rdma_cm_event_type kind = event->event;
		struct rdma_cm_id *id = event->id;

		EQ(rdma_ack_cm_event(event), 0);
		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
			CHECK(accepted < count);
			ids[accepted++] = id;
			give_pair(id, count);
			EQ(rdma_accept(id, &param), 0);
		} else if (kind == RDMA_CM_EVENT_ESTABLISHED) {
			if (++established == count)
				printf("server idle_ms %.2f\n", idle_ms());
		} else if (kind == RDMA_CM_EVENT_DISCONNECTED) {
			EQ(rdma_disconnect(id), 0);
			ended++;
		} else if (kind != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
			FAIL("%s", rdma_event_str(kind));
		}
	}
	for (int i = 0; i < accepted; i++) {
		rdma_destroy_qp(ids[i]);
		EQ(rdma_destroy_id(ids[i]), 0);
	}
	EQ(rdma_destroy_id(listening), 0);
}

static int by_size(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static void client(char **words)
{
	struct sockaddr_in to = where(words);
	int count = atoi(words[2]), measured = atoi(words[3]);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id **ids = calloc(count, sizeof(*ids));
	double *times = calloc(measured, sizeof(*times));
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	CHECK(channel && ids && times && measured > 0 && measured <= count);
	for (int i = 0; i < count; i++) {
		double begin = now();

		EQ(rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), 0);
		EQ(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&to, 2000), 0);
		expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		EQ(rdma_resolve_route(ids[i], 2000), 0);
		expect_and_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
		give_pair(ids[i], count);
		EQ(rdma_connect(ids[i], &param), 0);
		expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
		if (i >= count - measured)
			times[i - (count - measured)] = (now() - begin) * 1e6;
	}
	double idle = idle_ms();

	qsort(times, measured, sizeof(*times), by_size);
	printf("connections %d us_median %.1f us_p99 %.1f us_max %.1f idle_ms %.2f\n", count, times[measured / 2],
	       times[measured * 99 / 100], times[measured - 1], idle);
	for (int i = 0; i < count; i++)
		EQ(rdma_disconnect(ids[i]), 0);
	for (int ended = 0; ended < count;) {
		struct rdma_cm_event *event = NULL;

		EQ(rdma_get_cm_event(channel, &event), 0);
		ended += event->event == RDMA_CM_EVENT_DISCONNECTED;
		EQ(rdma_ack_cm_event(event), 0);
	}
	for (int i = 0; i < count; i++) {
		rdma_destroy_qp(ids[i]);
		EQ(rdma_destroy_id(ids[i]), 0);
	}
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "server"))
		server(argv + 2);
	else if (argc == 6 && !strcmp(argv[1], "client"))
		client(argv + 2);
	else
		return 2;
	return 0;
}
